"""The three calls that word a skill. Its summary is judged by the excerpts it was made from; its target by whether the
skill was pursued; its steps by whether points followed."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator

from rsso_dspy.environments.grammar import words
from rsso_dspy.optimize.feedback.call import Call, results
from rsso_dspy.optimize.feedback.wording import FEW
from rsso_dspy.programs.actor import first_line
from rsso_dspy.programs.instructions import instructions
from rsso_dspy.trajectory import TrialResult

_EXCERPT = re.compile(r"^Excerpt \d+\s*$", re.M)
_ACTION = re.compile(r"^Action \d+: (.+)$", re.M)
_SUBGOAL = re.compile(r"^Subgoal \d+: (.+)\n((?: +\d+\. .+\n?)*)", re.M)
_SHORTEST_NAME, _LONGEST_NAME = 2, 5
"""Words of a skill's name, as its signature asks for them."""

Shown = tuple[str, list[str]]
"""Target and steps of a skill as a prompt shows them."""


def summary(call: Call) -> Iterator[str]:
    """The first call. Nothing that it says stands in a later prompt of the actor, so no trial can blame it."""
    excerpts = [_vocabulary(part) for part in _EXCERPT.split(call.read("examples")) if _ACTION.search(part)]
    common = frozenset.intersection(*excerpts) if excerpts else frozenset()
    said = words(f"{call.said('summary')} {call.said('skill_name')}")
    if common and len(common & said) < FEW * len(common):
        yield f"The summary holds {len(common & said)} of {len(common)} words that the actions of all excerpts share."
        yield "Always say what all excerpts have in common, in the words of their actions."
    elsewhere = frozenset().union(*excerpts) - common
    if alone := sorted(elsewhere & words(call.said("skill_name"))):
        yield f"The name holds words that not all excerpts share: {', '.join(alone)}."
        yield "Only name a skill by what stands in every excerpt."
    length = len(call.said("skill_name").split())
    if not _SHORTEST_NAME <= length <= _LONGEST_NAME:
        yield f"The name has {length} words."
        yield "Always give a skill a name of two to five words."
    yield from results(call.trials)


def steps(call: Call) -> Iterator[str]:
    """The second call. Steps that no points followed are its fault; a skill that was not pursued is the target's."""
    written = [first_line(step) for step in call.outputs.get("steps") or () if first_line(step)]
    kept = list(instructions(written, call.read("action_templates"), _ACTION.findall(call.read("examples"))))
    if len(kept) < len(written):
        yield f"Of {len(written)} steps {len(written) - len(kept)} are no actions."
        yield "Always write each step as one action in the form of a template."
    seen, pursued = yield from _use(call, lambda shown: bool(kept) and shown[1] == kept)
    if pursued and not any(pursued):
        yield "Only keep the steps that the points depended on, and end with the one that earned them."
    elif any(pursued):
        yield "Keep skills as short and concrete as this one."
    elif seen:
        yield "That the skill was not chosen is a matter of its target, not of its steps."
    yield from results(call.trials)


def target(call: Call) -> Iterator[str]:
    """The third call. A skill that was offered and never pursued is its fault; what came of a pursuit is the steps'."""
    said = " ".join(call.said("target").split())
    seen, pursued = yield from _use(call, lambda shown: bool(said) and shown[0] == said)
    if seen and not pursued:
        yield "Always word a skill by what the player wants to reach, so that it is chosen."
    elif pursued and not any(pursued):
        yield "That no points followed is a matter of the skill's steps, not of its target."
    elif any(pursued):
        yield "Keep targets as plain as this one."
    yield from results(call.trials)


def _vocabulary(excerpt: str) -> frozenset[str]:
    return words("\n".join(_ACTION.findall(excerpt)))


def _use(call: Call, is_it: Callable[[Shown], bool]) -> Generator[str, None, tuple[int, list[bool]]]:
    """Says how the skill was used, and gives it back: steps that offered it, and of each that pursued it whether points
    followed. A step that pursues a subgoal copied its target from the prompt."""
    mine = [(skill, shown) for skill, shown in _shown(call.results) if is_it(shown)]
    ids, targets = {skill for skill, _ in mine}, {shown[0] for _, shown in mine}
    seen = sum(bool(ids & set(step.recalled)) for trial in call.trials for step in trial.steps)
    pursued = [
        any(later.reward > 0 for later in trial.steps[index:])
        for trial in call.trials
        for index, step in enumerate(trial.steps)
        if step.subgoal in targets
    ]
    yield f"The skill was offered at {seen} steps and pursued at {len(pursued)}; points followed on {sum(pursued)}."
    return seen, pursued


def _shown(given: Iterable[TrialResult]) -> Iterator[tuple[str, Shown]]:
    """Id, target and steps of every skill that stood in a prompt."""
    for result in given:
        for region, text in result.shown.items():
            name, _, ids = region.partition(":")
            if name == "skills":
                for skill, (goal, body) in zip(ids.split(","), _SUBGOAL.findall(text), strict=False):
                    yield skill, (goal, re.findall(r"^ +\d+\. (.+)$", body, re.M))
