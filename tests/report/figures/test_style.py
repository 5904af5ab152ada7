"""What arms look like: told apart on any page, by any eye, whatever they are called."""

from itertools import combinations

import numpy as np
import pytest

from rsso_dspy.report.figures.style import FAINT, LONGEST, PALETTE, assign_arm_styles, shorten_name

# Machado, Oliveira, Fernandes 2009: what linear RGB becomes when one kind of cone is missing.
SIGHT = {
    "full": np.eye(3),
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
LMS = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]])
OKLAB = np.array([[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]])


def linear(colour: str) -> np.ndarray:
    values = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    dark, light = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("page", ["#ffffff", "#14171a"])
def test_colours_are_read_on_white_and_on_dark_pages(page: str):
    assert min(contrast(colour, page) for colour in PALETTE) >= 3
    assert contrast(FAINT, page) >= 4


@pytest.mark.parametrize("sight", SIGHT)
def test_no_two_colours_look_alike(sight: str):
    seen = [OKLAB @ np.cbrt(LMS @ np.clip(np.array(SIGHT[sight]) @ linear(colour), 0, 1)) for colour in PALETTE]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) > 0.09


def test_an_arm_looks_the_same_whatever_becomes_of_the_others_and_like_no_other():
    found = assign_arm_styles([f"arm {number}" for number in range(40)])
    assert len({(style.colour, style.marker) for style in found.values()}) == 40
    assert len({(style.colour, style.dashes) for style in list(found.values())[:18]}) == 18


@pytest.mark.parametrize(
    ("name", "drawn"),
    [
        ("rsso+constitution", "rsso+constitution"),
        ("a\x1b[31m\u202eb\nc\t d", "a\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}b c d"),
        ("日本", "\N{REPLACEMENT CHARACTER}" * 2),
        ("", "\N{REPLACEMENT CHARACTER}"),
        ("first-" + "x" * 100 + "-last", "first-xxxxxxxx…xxxxxxxx-last"),
    ],
)
def test_a_name_is_one_short_line_of_letters_that_can_be_drawn(name: str, drawn: str):
    assert shorten_name(name) == drawn
    assert len(drawn) <= LONGEST


def test_names_that_differ_only_where_they_are_cut_stay_apart():
    arms = ["x" * 60 + str(number) + "x" * 60 for number in range(3)]
    names = [style.name for style in assign_arm_styles(arms).values()]
    assert len(set(names)) == 3
    assert max(map(len, names)) <= LONGEST
