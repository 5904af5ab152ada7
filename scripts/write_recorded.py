"""Writes what the recorded runs of `examples/recorded` show into README.md, docs/BENCHMARKS.md and docs/images.

    python scripts/write_recorded.py            # writes
    python scripts/write_recorded.py --check    # fails where the pages say anything else

A page names what it wants between two comments: ``<!-- recorded NAME WHAT -->`` and ``<!-- end -->``. WHAT is
`sentence`, `tables`, `memories` or `replication`, computed from the folder of the run by `rsso-dspy report`, or
`compiles`, read from programs. The ceiling of a report is the arm with rules by hand, where there is one.
NAME may be A,B: the arms of run B beside the control of run A, or all compiles of a table.
"""

import gzip
import json
import os
import re
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from functools import cache, partial
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from rsso_dspy import load
from rsso_dspy.cli import main as run_command
from rsso_dspy.optimize.program_file import TriedProgram, describe_noise

ROOT = Path(__file__).parents[1]
RECORDED = ROOT / "examples/recorded"
IMAGES = ROOT / "docs/images"
CEILING = "react+constitution+hand"
PAGES = (ROOT / "README.md", ROOT / "docs/BENCHMARKS.md")
BLOCK = re.compile(r"(<!-- recorded (\S+) (\S+) -->\n).*?(?=<!-- end -->)", re.S)


def read_arms(name: str) -> list[str]:
    return list(json.loads((RECORDED / name / "run.json").read_bytes())["arms"])


def run_report(name: str, *options: str) -> str:
    """The report of these runs; of several, all arms are compared with the first arm of the first one."""
    folders = [str(RECORDED / folder) for folder in name.split(",")]
    against = ["--against", read_arms(name.partition(",")[0])[0]] if "," in name else []
    ceiling = ["--ceiling", CEILING] if CEILING in read_arms(name.partition(",")[0]) else []
    command = ["rsso-dspy", "report", *folders, *against, *ceiling, *options]
    wide = patch.dict(os.environ, COLUMNS="10000")
    with redirect_stdout(StringIO()) as printed, patch.object(sys, "argv", command), wide:
        try:
            run_command()
        except SystemExit as ended:
            if ended.code:
                raise
    return printed.getvalue().strip()


@cache
def make_tables(name: str) -> dict[str, str]:
    """The tables of the report as Markdown, by their names; draws, or checks, the picture where a page shows one."""
    picture = IMAGES / f"{name}.svg"
    is_shown = any(f"images/{picture.name}" in page.read_text(encoding="utf-8") for page in PAGES)
    with TemporaryDirectory() as folder:
        run_report(name, "--tables", folder, *(["--figures", folder] if is_shown else []))
        drawn = Path(folder, "differences.svg").read_bytes() if is_shown else b""
        if is_shown and "--check" not in sys.argv:
            picture.write_bytes(drawn)
        elif is_shown and drawn != picture.read_bytes():
            sys.exit(f"{picture.name} does not show what the recorded run shows: run python scripts/write_recorded.py")
        return {file.stem: file.read_text(encoding="utf-8") for file in Path(folder).glob("*.md")}


def choose_rows(table: str, name: str) -> str:
    """The rows of a table on the control and on the arms of the last run of `name`; all rows of a single run."""
    control, arms = read_arms(name.partition(",")[0])[0], read_arms(name.rpartition(",")[2])
    head, rows = table.splitlines()[:2], table.splitlines()[2:]
    firsts = [row.split("|")[1].strip() for row in rows]
    chosen = [row for row, first in zip(rows, firsts, strict=True) if first == control or first.split(" - ")[0] in arms]
    return "\n".join([*head, *(chosen if "," in name else rows)])


def measure_hours(names: str) -> float:
    """Hours in which the model answered in the last run. An answer that several arms share took its time once, and none
    where an earlier run has it."""
    seconds = {}
    for name in names.split(","):
        known = set(seconds)
        for file in (RECORDED / name).rglob("*.jsonl.gz"):
            for line in gzip.decompress(file.read_bytes()).decode().splitlines():
                if line.startswith('{"call"') and (call := json.loads(line)).get("answer"):
                    place = (*file.parts[-2:], call["trial"], call["step"], call["role"], str(call["answer"]))
                    seconds[(*place, call["seconds"])] = call["seconds"]
    return sum(took for each, took in seconds.items() if each not in known) / 3600


def write_sentence(name: str) -> str:
    return run_report(name).rpartition("\n\n")[2].replace("\n", " ") + "\n"


def write_tables(name: str, chosen: Sequence[str] = ("learning", "differences", "measures")) -> str:
    tables = make_tables(name)
    shown = [choose_rows(tables[table].split("\n\n")[1], name) for table in chosen]
    return "\n\n".join([*shown, f"The model answered for {measure_hours(name):.1f} hours.\n"])


def write_compiles(names: str) -> str:
    """A row a compile: points on val; the chosen candidate minus the program to improve on the confirm variants; and
    the true gain that such a compile confirms in four of five cases."""
    rows = [
        "| compile | program to improve | placebo | candidates | dropped | on confirm | p | power | rollouts | calls |"
    ]
    rows.append("|---|---|---|---|---|---|---|---|---|---|")
    for name in names.split(","):
        (file,) = (RECORDED / name).glob("*.json")
        compiled = load(file, to_play=False)
        start, *others = [each for each in compiled.tried if each.scores]  # others were played on train alone
        placebos, candidates = ([each for each in others if each.placebo is kind] for kind in (True, False))
        points = (", ".join(map(format_points, programs)) for programs in ([start], placebos, candidates))
        (power,) = re.findall(r"about (\d+) points", " ".join(describe_noise(compiled)))
        shown, seen = ("", ""), compiled.confirmation
        if seen and seen.difference is not None:
            gain, low, high = (f"{100 * each:+.1f}" for each in (seen.difference, seen.low, seen.high))
            shown = f"{gain}, {low} to {high}", f"{seen.p:.3f}"
        cells = file.stem, *points, str(sum(each.dropped for each in candidates)), *shown, power
        rows.append(f"| {' | '.join(cells)} | {compiled.rollouts} | {compiled.lm_calls:,} |")
    return "\n".join(rows) + "\n"


def format_points(tried: TriedProgram) -> str:
    """Return the mean on val, and on how many variants where a candidate was dropped before it was played on all."""
    assert tried.scores is not None
    met = f" (on {tried.val_played or len(tried.per_variant)})" if tried.dropped else ""
    return f"{tried.scores.mean:.1f}{met}"


def main() -> None:
    writers = {
        "sentence": write_sentence,
        "tables": write_tables,
        "memories": partial(write_tables, chosen=("methods", "differences", "room", "strata", "tasks")),
        "replication": partial(write_tables, chosen=("methods", "differences", "room")),
        "compiles": write_compiles,
    }
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = BLOCK.sub(lambda block: block.group(1) + writers[block.group(3)](block.group(2)), text)
        if new != text and "--check" in sys.argv:
            sys.exit(f"{page.name} does not say what the recorded runs show: run python scripts/write_recorded.py")
        page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
