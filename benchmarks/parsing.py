"""What is read of answers that keep to no format, by DSPy's adapters and by this package's, without a second call.

    python benchmarks/parsing.py [--rounds 2000] [--held]

The answers are those of `tests/lm/data/malformed_answers.json`: made up, after what small models are seen to
say; with each stands what has to be read of it, or that nothing may be. Each is given to every adapter, whatever form
it is in, as a model answers in the form it knows. Shares are of the answers that can be read:

1.  right: every field as expected; of an action, the first line, as the agent takes it.
2.  wrong: fields came back, and not those. The one to be near 0: an unread answer costs a call, a wrong one a step.
3.  kept: of the answers that must stay unread, those that did.
4.  Microseconds to parse a well-formed answer of an actor, ours beside DSPy's: what tolerance costs where none is
    needed. The median of the rounds, CPU time of this process.

--held takes only the answers that were set aside and first measured when the repair stood; what that first measure
found missing has been mended since, so the share is no forecast for answers of other kinds. ratio = share read rightly
by our chat adapter / by DSPy's.
"""

import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import AdapterParseError

from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy import signatures
from rsso_dspy.adapter import ChatAdapter, JSONAdapter
from rsso_dspy.programs.roles import first_line

CORPUS = Path(__file__).parent.parent / "tests" / "lm" / "data" / "malformed_answers.json"
ADAPTERS: dict[str, dspy.Adapter] = {
    "dspy chat": dspy.ChatAdapter(),
    "dspy json": dspy.JSONAdapter(),
    "ours chat": ChatAdapter(),
    "ours json": JSONAdapter(),
}
RIGHT, WRONG, UNREAD = "right", "wrong", "unread"
Entry = Mapping[str, Any]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=2000, help="repetitions of the timed parses")
    parser.add_argument("--held", action="store_true", help="only the answers that were set aside")
    options = parser.parse_args()
    entries = [e for e in json.loads(CORPUS.read_text(encoding="utf-8")) if e["held"] or not options.held]
    readable = [entry for entry in entries if entry["expect"] is not None]
    verdicts = {name: [judge_answer(adapter, entry) for entry in entries] for name, adapter in ADAPTERS.items()}
    print_by_kind(entries, verdicts)
    print()
    print_head(
        f"{len(readable)} readable, {len(entries) - len(readable)} not", "right", "wrong", "unread", "kept unread"
    )
    shares = {name: summarize_verdicts(entries, found) for name, found in verdicts.items()}
    for name, share in shares.items():
        print_row(name, *(f"{share[figure]:.1%}" for figure in (RIGHT, WRONG, UNREAD, "kept")))
    taken = {name: time_parsing(adapter, options.rounds) for name, adapter in ADAPTERS.items()}
    print()
    print_head("well-formed answer, µs", "dspy", "ours")
    for form in ("chat", "json"):
        print_row(form, *(f"{taken[f'{whose} {form}']:.0f}" for whose in ("dspy", "ours")))
    result = {
        "ratio": round(shares["ours chat"]["right"] / shares["dspy chat"]["right"], 2),
        "answers": len(entries),
        "held": options.held,
        **{f"{figure} {name}": round(share[figure], 3) for name, share in shares.items() for figure in share},
        **{f"us {name}": round(time, 1) for name, time in taken.items()},
    }
    print(json.dumps(result))


def judge_answer(adapter: dspy.Adapter, entry: Entry) -> str:
    signature = getattr(signatures, entry["signature"], None) or dspy.Signature(entry["signature"])
    try:
        fields = adapter.parse(signature, entry["answer"])
    except AdapterParseError:
        return UNREAD
    return RIGHT if extract_used_fields(fields) == entry["expect"] else WRONG


def extract_used_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as plain data; of an action, what the agent takes of it."""
    plain = json.loads(json.dumps(dict(fields), default=lambda model: model.model_dump()))
    return {
        name: first_line(said) if name in ("action", "next_action") and said else said for name, said in plain.items()
    }


def summarize_verdicts(entries: Sequence[Entry], found: Sequence[str]) -> dict[str, float]:
    """Shares of the readable answers by verdict, and of the others that stayed unread."""
    readable = [verdict for entry, verdict in zip(entries, found, strict=True) if entry["expect"] is not None]
    others = [verdict for entry, verdict in zip(entries, found, strict=True) if entry["expect"] is None]
    return {verdict: readable.count(verdict) / len(readable) for verdict in (RIGHT, WRONG, UNREAD)} | {
        "kept": others.count(UNREAD) / len(others)
    }


def print_by_kind(entries: Sequence[Entry], verdicts: Mapping[str, Sequence[str]]) -> None:
    """A row a kind: how many answers were read rightly and, after a slash, wrongly."""
    print("right/wrong; of unreadable kinds, kept/wrong\n")
    print_head("kind", "answers", *verdicts)
    for kind in dict.fromkeys(entry["kind"] for entry in entries):
        rows = [number for number, entry in enumerate(entries) if entry["kind"] == kind]
        cells = []
        for found in verdicts.values():
            good = sum(found[n] == (UNREAD if entries[n]["expect"] is None else RIGHT) for n in rows)
            cells.append(f"{good}/{sum(found[n] == WRONG for n in rows)}")
        print_row(kind, len(rows), *cells)


def time_parsing(adapter: dspy.Adapter, rounds: int) -> float:
    """Median time to parse an actor's answer in the adapter's own form."""
    said = {
        "reasoning": "The door to the kitchen is closed, so opening it comes first. " * 5,
        "current_subgoal": "The door to the kitchen is open.",
        "next_action": "open door to kitchen",
    }
    answer = adapter.format_assistant_message_content(signatures.SkillActor, said)
    times = []
    for _ in range(rounds):
        start = time.process_time_ns()
        adapter.parse(signatures.SkillActor, answer)
        times.append(time.process_time_ns() - start)
    return statistics.median(times) / 1000


if __name__ == "__main__":
    main()
