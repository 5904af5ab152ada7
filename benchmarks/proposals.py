"""What a proposer is shown: three small compiles on the embedded backend, a whole exchange of each as a page, and the
tokens of a proposal.

    python benchmarks/proposals.py [--page docs/PROPOSALS.md] [--jobs 1]

A token is counted as four characters, as everywhere on the embedded backend. Training variants alone are played.
"""

import gzip
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from benchmarks.script import make_parser

COMPILES = (
    ("gepa --max-rollouts 36", "boil,find-plant,lifespan-longest-lived", "first"),
    ("gepa --max-rollouts 36", "chemistry-mix,freeze,use-thermometer", "last"),
    ("clauses --teacher gold --max-rollouts 72", "lifespan-longest-lived,chemistry-mix", "last"),
)
"""Optimizer with its options, tasks, and which of the exchanges is shown."""
OPTIONS = "--calib 2-per-task --max-idle 20 --seed 1 --protocol adapt/2-cap60 --set embedder.model=lexical"
HEAD = """\
# What a proposer is shown

Three exchanges with the proposer role, complete: what it is asked and what it answers. The embedded backend played and
answered here, so the answers show the form of an answer and not what a language model would see in the request.

This page is written by `python benchmarks/proposals.py`, which says what the requests come to in tokens as well.
[COMPILING.md](COMPILING.md#what-a-proposer-is-shown) says what is in them and why.
"""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--jobs", default="1")
    options = parser.parse_args()
    page, sizes = [HEAD], []
    for optimizer, tasks, which in COMPILES:
        command = f"compile --calib ... --optimizer {optimizer} --tasks {tasks}"
        exchanges = record_compile(optimizer, tasks, options.jobs)
        here = [count_tokens(exchange) for exchange in exchanges]
        sizes += here
        print(f"{command}: {len(here)} proposals, tokens {min(here)} to {max(here)}, median {median(here):.0f}")
        shown = exchanges[0 if which == "first" else -1]
        page.append(f"## {tasks.replace(',', ', ')}\n")
        page.append(
            f"`rsso-dspy compile --optimizer {optimizer} --tasks {tasks} {OPTIONS}`:\n"
            f"the {which} of {len(here)} questions, {count_tokens(shown):,} tokens.\n"
        )
        page += [format_message(role, text) for role, text in list_messages(shown)]
    print(f"all: tokens {min(sizes)} to {max(sizes)}, median {median(sizes):.0f}")
    if options.page:
        options.page.write_text("\n".join(page), encoding="utf-8")


def record_compile(optimizer: str, tasks: str, jobs: str) -> list[dict]:
    """Every exchange with the proposer of one compile, in order."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "compiled.json"
        command = [str(Path(sys.executable).with_name("rsso-dspy")), "compile", "--record", "-o", str(out)]
        command += ["--optimizer", *optimizer.split(), "--tasks", tasks, "--jobs", jobs, *OPTIONS.split()]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with gzip.open(f"{out}.recordings/proposals.jsonl.gz", "rt", encoding="utf-8") as lines:
            return [exchange for line in lines if "request" in (exchange := json.loads(line))]


def list_messages(exchange: dict) -> list[tuple[str, str]]:
    """Role and text of the messages of a request, and of the answer."""
    asked = [(message["role"], message["content"]) for message in exchange["request"]["messages"]]
    answer = exchange["answer"]
    return [*asked, ("answer", answer if isinstance(answer, str) else "\n".join(answer))]


def count_tokens(exchange: dict) -> int:
    """Tokens of a request."""
    return round(sum(len(text) for role, text in list_messages(exchange) if role != "answer") / 4)


def format_message(role: str, text: str) -> str:
    """A message as a block of the page."""
    return (
        f"### {role.capitalize()}\n\n```text\n"
        + "\n".join(line.rstrip() for line in text.strip().splitlines())
        + "\n```\n"
    )


if __name__ == "__main__":
    main()
