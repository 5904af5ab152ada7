"""What messages say."""

import pytest

from rsso_dspy.errors import UnknownName

OPTIMIZERS = ("bootstrap", "gepa", "mipro", "none")
MANY = tuple(f"task-{number}" for number in range(20))


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("gepaa", OPTIMIZERS, f"did you mean gepa? Known: {', '.join(OPTIMIZERS)}."),
        ("nope", OPTIMIZERS, f"did you mean none? Known: {', '.join(OPTIMIZERS)}."),
        ("evolution", OPTIMIZERS, f"known: {', '.join(OPTIMIZERS)}."),
        ("rayy", ("ray",), "did you mean ray?"),
        ("frist", ("sso", "first"), "did you mean first? Known: first, sso."),
        ("zzz", MANY, f"known: {', '.join(sorted(MANY))}."),
        ("task-77", MANY, "did you mean task-7 or task-17 or task-9?"),
    ],
)
def test_an_unknown_name_is_offered_what_is_near_and_all_where_they_are_few(name, known, said):
    assert str(UnknownName("thing", name, known, "Or none.")) == f"unknown thing {name!r}: {said} Or none."
