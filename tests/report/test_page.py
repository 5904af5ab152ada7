"""The page as a file: what is in it, whole or not at all, and pictures that its policy allows."""

import base64
import gzip
import json
import re
from dataclasses import replace
from pathlib import Path

from rsso_dspy.records import State
from rsso_dspy.report import page as page_module
from rsso_dspy.report import sheets
from rsso_dspy.report.drawings import Drawings
from rsso_dspy.report.page import Page, PageSection, build_record_data, compress_record, write_page
from tests.records import record

SHEET = sheets.build_sheet("means", "Means", ("arm", "Mean"), [("rsso", 1 / 3)])
PAGE = Page("Run", [PageSection("overview", "Overview", "What each arm reached.", (SHEET,))])


def with_texts(texts):
    """A unit whose observations are `texts`."""
    unit = record("rsso", "boil", 22, [[10] * len(texts)])
    trial = unit.trials[0]
    steps = tuple(
        replace(step, state=State(text, "", "")) for step, text in zip(trial.trajectory.steps, texts, strict=True)
    )
    return replace(unit, trials=(replace(trial, trajectory=replace(trial.trajectory, steps=steps)),))


def opened(page: str, number: int) -> dict:
    chunk = re.search(rf'id="unit-{number}">([^<]*)<', page)
    return json.loads(gzip.decompress(base64.b64decode(chunk[1])))


def test_a_page_holds_every_record_and_the_same_run_gives_the_same_bytes(tmp_path):
    units = [record("sso", "boil", 22, [[10], [33]]), record("rsso", "boil", 22, [[100], None])]
    for name in ("a.html", "b.html"):
        drawings = Drawings(titles={"grid": {"title": "</script><!-- wait \u202e"}})
        whole = replace(PAGE, notes=["A note."], facts=[("Commit", "abc")], drawings=drawings)
        write_page(tmp_path / name, whole, iter(units))
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert page == (tmp_path / "b.html").read_text(encoding="utf-8")
    assert [opened(page, number) for number in (0, 1)] == [build_record_data(unit) for unit in units]
    written = re.search(r'id="index">(.*?)</script>', page)[1]
    assert "<" not in written
    index = json.loads(written)
    assert [unit["scores"] for unit in index["units"]] == [[10, 33], [100, None]]
    assert [unit["marks"] for unit in index["units"]] == ["nn", "se"]
    assert index["figures"]["titles"]["grid"]["title"] == "</script><!-- wait \ufffd"
    assert page.index("A note.") < page.index("Means") < page.index('id="unit-0"')
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.html"]


def test_a_text_stands_once_in_a_chunk_and_nothing_in_it_can_steer_a_page():
    told = ["Same.", "Same.", "</script><b>", "\u202eright to left", "nul \0", "half \ud800", "line\u2028end"]
    long = f"{'A word. ' * 9}\n\n{'More. ' * 9}"
    data = build_record_data(with_texts([*told, long, f"First.\n\n{long}"]))
    texts = [step["state"]["observation"] for step in data["trials"][0]["trajectory"]["steps"]]
    assert texts[:7] == ["Same.", "Same.", "</script><b>", "�right to left", "nul �", "half �", "line�end"]
    packed = [[data["texts"][int(part)] for part in text[1:].split(" ")] for text in texts[7:]]
    assert packed == [long.split("\n\n"), ["First.", *long.split("\n\n")]]
    assert len(set(data["texts"])) == len(data["texts"])
    assert re.fullmatch(rb"[A-Za-z0-9+/=]+", compress_record(with_texts(told)))


def test_no_asset_could_end_its_element_early():
    for path in (Path(page_module.__file__).parent / "assets").glob("*.[jc]s*"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"</script|</style|<!--|innerHTML|insertAdjacentHTML|\beval\(|document\.write", text), path
