"""Abstract rules in the examples of BabyAI and PDDL: each stretch of play with those that the patterns of the benchmark
(`[[facts]]` of its `data/texts.toml`) draw from it.

    python scripts/draw_abstract_rules.py            # writes rsso_dspy/environments/*/data/examples.json
    python scripts/draw_abstract_rules.py --check    # draw them anew and compare with what is shipped

The stretches were played by a player that is no longer there, so rules are drawn from their texts. Examples of ALFWorld
are played anew, with all their rules, by `benchmarks/alfworld_examples.py`.
"""

import argparse
import json
import re
from pathlib import Path

import rsso_dspy
from rsso_dspy.environments.benchmark import Hints, get_benchmark
from rsso_dspy.records import State, Step

PACKAGE = Path(rsso_dspy.__file__).parent / "environments"
BENCHMARKS = ("babyai", "pddl")

_RULES = re.compile(r"^\w+ rules:$", re.M)
_ABSTRACT = re.compile(r"^Abstract rules:\n(?:- .*(?:\n|\Z))*", re.M)
_STEP = re.compile(r"^Step \d+\. > ", re.M)
_REFUSED = ("not valid", "not recognized")


def draw_rules(example: str, hints: Hints) -> str:
    """Return the example with the abstract rules that patterns draw from its stretch of play, ahead of all others."""
    bare = _ABSTRACT.sub("", example)
    first_rules = _RULES.search(bare)
    assert first_rules is not None, "an example has rules"

    play, rules = bare[: first_rules.start()], bare[first_rules.start() :]
    task, states, steps = parse_play(play)
    facts: dict[str, None] = {}
    for number in range(1, len(steps) + 1):
        facts |= dict.fromkeys(lesson.line for lesson in hints.facts(task, states[: number + 1], steps[:number]))
    drawn = "".join(f"- {fact}\n" for fact in facts or ("none",))
    return f"{play}Abstract rules:\n{drawn}{rules}"


def parse_play(text: str) -> tuple[str, list[State], list[Step]]:
    """The task, states and steps of a stretch of play that is written as a transcript."""
    head, *taken = _STEP.split(text)
    task, _, start = head.removeprefix("Task: ").partition("\n")
    states, steps = [State(start.strip(), "", "")], list[Step]()
    for each in taken:
        action, _, answer = each.partition("\n")
        state = State(answer.strip("\n"), "", "")
        understood = not any(words in answer for words in _REFUSED)
        states.append(state)
        steps.append(Step(action, action, state, 0, 0, understood))
    return task, states, steps


def write_file(benchmark: str) -> str:
    """Return the text of a benchmark's file of examples."""
    content = json.loads((PACKAGE / benchmark / "data/examples.json").read_text(encoding="utf-8"))
    hints = get_benchmark(benchmark).hints
    content["examples"] = [draw_rules(example, hints) for example in content["examples"]]
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the files differ")
    options = parser.parse_args()

    different = []
    for benchmark in BENCHMARKS:
        file, text = PACKAGE / benchmark / "data/examples.json", write_file(benchmark)
        if not options.check:
            file.write_text(text, encoding="utf-8")
        elif file.read_text(encoding="utf-8") != text:
            different.append(benchmark)
    if different:
        raise SystemExit(f"other rules than are shipped: {', '.join(different)}")


if __name__ == "__main__":
    main()
