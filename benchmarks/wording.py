"""Whether actions are understood however a model words them.

    python benchmarks/wording.py [--tasks boil,...] [--interface sso] [--batch third] [--manners "bold,label"]

The gold path of one training variant of each of the 18 tasks is played through the whole agent, by a scripted model
that says every action in one manner of `manners.py` or `fresh_manners.py`: as the observations name things, with a
label, as JSON, without a subgoal, and so on. When the simulator asks which of several actions is meant, it names the
option of the gold path. Prints per manner and interface the share of paths that still reach 100, and how many more of
their steps than without the manner got nowhere. The ratio is the share over all manners under `complete`. The simulator
is asked nothing twice: 40 manners on two short paths take half a minute, all tasks much longer.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import dspy
from dspy.lm15 import Message, Request, Response, TextPart, Usage

from benchmarks import fresh_manners as fresh
from benchmarks.manners import ANSWERS, CHOICES, RESTATED, Answer, Choose, Restate, chat
from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.config import load_config
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.records import Trajectory, Variant
from rsso_dspy.sessions import Session, session

WHY = "This is the next thing to do."
PLAIN = "as the gold path has it"
INTERFACES = ("sso", "complete")
AMBIGUOUS = "mbiguous request"
_OPTION = re.compile(r"^(\d+):\s*(.+)$", re.M)


@dataclass(frozen=True)
class Manner:
    """How a model words its answers."""

    name: str
    word: Restate
    form: Answer = chat
    choose: Choose = lambda number, _text: number


def make_batch(
    restated: Mapping[str, Restate], answers: Mapping[str, Answer], choices: Mapping[str, Choose] = MappingProxyType({})
) -> tuple[Manner, ...]:
    return (
        *(Manner(name, word) for name, word in restated.items()),
        *(Manner(name, RESTATED[PLAIN], form) for name, form in answers.items()),
        *(Manner(name, RESTATED[PLAIN], choose=choose) for name, choose in choices.items()),
    )


BATCHES = {
    "first": make_batch(RESTATED, ANSWERS, CHOICES),
    "second": make_batch(fresh.SECOND_RESTATED, fresh.SECOND_ANSWERS),
    "third": make_batch(fresh.THIRD_RESTATED, fresh.THIRD_ANSWERS, fresh.THIRD_CHOICES),
    "fourth": make_batch(fresh.FOURTH_RESTATED, fresh.FOURTH_ANSWERS, fresh.FOURTH_CHOICES),
}
"""The manners that were written together with the repairs, and three lists that no repair had seen when they were
first tried."""

MANNERS = {manner.name: manner for batch in BATCHES.values() for manner in batch}


class Restating:
    """A model that walks a gold path in a manner. A number of the path answers a question, and is not said without one;
    a question that the path does not expect is answered with its first option."""

    def __init__(self, path: list[str], manner: Manner):
        self.left = iter(path)
        self.ahead: str | None = next(self.left, None)
        self.manner = manner

    def complete(self, request: Request) -> Response:
        prompt = request.messages[-1].text or ""
        said = self.manner.form(WHY, self.say(prompt))
        usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2)
        return Response(None, request.model, Message.assistant([TextPart(said)]), "stop", usage)

    def say(self, prompt: str) -> str:
        history = prompt.rpartition("[[ ## history ## ]]")[2]
        newest = history.rpartition("ction: ")[2]
        if AMBIGUOUS in newest:
            options = dict(_OPTION.findall(newest))
            number = self._take() if (self.ahead or "").isdigit() else "0"
            return self.manner.choose(number, options.get(number, "").strip())
        while (self.ahead or "").isdigit():
            self._take()
        return self.manner.word(self._take() or "wait1", history)

    def _take(self) -> str:
        now, self.ahead = self.ahead, next(self.left, None)
        return now or ""

    def close(self) -> None:
        pass

    def __deepcopy__(self, memo: dict[int, Any]) -> "Restating":
        return self


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("--tasks", default=",".join(tasks.tasks()))
    options.add_argument("--interface", choices=INTERFACES)
    options.add_argument("--batch", choices=BATCHES, default="first", help="which manners, unless --manners names some")
    options.add_argument("--manners", help="names of manners of any batch, separated by commas")
    options.add_argument("--verbose", action="store_true", help="also print the steps that were not understood")
    asked = options.parse_args()
    variants = [tasks.TABLE.train_sample(task, 1)[0] for task in asked.tasks.split(",")]
    paths = {variant: list(tasks.compute_gold_paths([variant])[0]) for variant in variants}
    chosen = [MANNERS[name] for name in asked.manners.split(",")] if asked.manners else BATCHES[asked.batch]
    interfaces = [asked.interface] if asked.interface else list(INTERFACES)
    print_head("manner", *(f"{name}: {what}" for name in interfaces for what in ("reach 100", "steps lost")))
    shares = []
    with session(load_config(overrides=["embedder.model=hash"])) as live:
        plain = {
            (name, variant): walk
            for name in interfaces
            for variant, path in paths.items()
            if (walk := play(live, variant, path, MANNERS[PLAIN], name)) is not None
        }
        could = {key: walk.environment_score >= 100 for key, walk in plain.items()}
        for manner in chosen:
            cells: list[object] = []
            for name in interfaces:
                solved = lost = total = 0
                for variant, path in paths.items():
                    if not could.get((name, variant)):
                        continue  # chance decides this path, or the simulator's own solver fails
                    walk = play(live, variant, path, manner, name)
                    total += 1
                    if walk is None:
                        lost += len(plain[name, variant].steps)
                        continue
                    solved += walk.environment_score >= 100
                    lost += max(0, count_waste(walk) - count_waste(plain[name, variant]))
                    if asked.verbose:
                        report(variant, manner, walk, plain[name, variant])
                cells += [f"{solved}/{total}", lost]
                if name == "complete":
                    shares.append(solved / total if total else 1.0)
            print_row(manner.name, *cells)
    paths_played = {name: sum(could.get((name, variant), False) for variant in paths) for name in interfaces}
    print(json.dumps({"ratio": round(sum(shares) / len(shares), 4) if shares else None, "paths": paths_played}))


def count_waste(walk: Trajectory) -> int:
    """Steps that got nowhere: not read, not understood, or answered with a question."""
    return sum(not step.understood or AMBIGUOUS in step.state.observation for step in walk.steps)


def report(variant: Variant, manner: Manner, walk: Trajectory, plain: Trajectory) -> None:
    """Print what went otherwise than without the manner."""
    for number, step in enumerate(walk.steps, start=1):
        if not step.understood:
            said = f"{step.proposed!r} {step.unread!r}: {step.state.observation[:80]!r}"
            print(f"    {variant.key} {manner.name}, step {number}: {said}")
    if walk.environment_score < 100:
        pairs = zip(walk.steps, plain.steps, strict=False)
        other = next((pair for pair in pairs if pair[0].state.observation != pair[1].state.observation), None)
        if other:
            print(
                f"    {variant.key} {manner.name} differs first: {other[0].proposed!r} -> {other[0].action!r}: "
                f"{other[0].state.observation[:200]!r}, not {other[1].action!r}: {other[1].state.observation[:200]!r}"
            )


def play(live: Session, variant: Variant, path: list[str], manner: Manner, interface: str) -> Trajectory | None:
    """One trial in which the scripted model walks the path; None if no answer of it could be read."""
    lm = dspy.LM("embedded/explorer", engine=Restating(path, manner), cache=False, temperature=0.5)
    rules = TrialRules(1, interface="complete" if interface == "complete" else "sso")
    runtime = replace(live.runtime, lm=lambda *_: lm, rules=rules, budget=lambda _: len(path) + 20)
    with live.activate_for_run(), runtime.activate():
        (trial,) = Agent("react-sso")(variant=variant, trials=1).trials
    assert trial.trajectory is not None or (trial.failure and trial.failure.kind == "BackendFailure"), trial.error
    return trial.trajectory


if __name__ == "__main__":
    main()
