"""Judges the three calls that describe a skill: the summary by the excerpts it was made from, the target by whether the
skill was pursued, the steps by whether points followed."""

import re
from collections.abc import Callable, Generator, Iterable, Iterator

from rsso_dspy.environments.grammar import extract_content_words
from rsso_dspy.optimize.feedback.predictor_call import PredictorCall, report_results
from rsso_dspy.optimize.feedback.remarks import Advice
from rsso_dspy.optimize.feedback.wording import FEW
from rsso_dspy.programs.roles import first_line
from rsso_dspy.programs.skill_verbalizer import filter_instructions
from rsso_dspy.records import TrialResult

_EXCERPT = re.compile(r"^Excerpt \d+\s*$", re.M)
_ACTION = re.compile(r"^Action \d+: (.+)$", re.M)
_SUBGOAL = re.compile(r"^Subgoal \d+: (.+)\n((?: +\d+\. .+\n?)*)", re.M)
_SHORTEST_NAME, _LONGEST_NAME = 2, 5
"""Fewest and most words of a skill's name, as its signature asks for them."""

ShownSkill = tuple[str, list[str]]
"""Target and steps of a skill as a prompt shows them."""


def judge_skill_summary(call: PredictorCall) -> Iterator[str]:
    """Judge the first call. The actor reads nothing of its answer, so no trial can be blamed on it."""
    excerpts = [
        _collect_action_words(part) for part in _EXCERPT.split(call.get_input("examples")) if _ACTION.search(part)
    ]
    common = frozenset.intersection(*excerpts) if excerpts else frozenset()
    said = extract_content_words(f"{call.get_output('summary')} {call.get_output('skill_name')}")
    if common and len(common & said) < FEW * len(common):
        yield f"The summary holds {len(common & said)} of {len(common)} words that the actions of all excerpts share."
        yield Advice("Always say what all excerpts have in common, in the words of their actions.")
    elsewhere = frozenset().union(*excerpts) - common
    if alone := sorted(elsewhere & extract_content_words(call.get_output("skill_name"))):
        yield f"The name holds words that not all excerpts share: {', '.join(alone)}."
        yield Advice("Only name a skill by what stands in every excerpt.")
    length = len(call.get_output("skill_name").split())
    if not _SHORTEST_NAME <= length <= _LONGEST_NAME:
        yield f"The name has {length} words."
        yield Advice("Always give a skill a name of two to five words.")
    yield from report_results(call.trials)


def judge_skill_steps(call: PredictorCall) -> Iterator[str]:
    """Judge the second call. Steps that no points followed are its fault; a skill that was not pursued is the fault of
    the target."""
    written = [first_line(step) for step in call.outputs.get("steps") or () if first_line(step)]
    kept = list(
        filter_instructions(written, call.get_input("action_templates"), _ACTION.findall(call.get_input("examples")))
    )
    if len(kept) < len(written):
        yield f"Of {len(written)} steps {len(written) - len(kept)} are no actions."
        yield Advice("Always write each step as one action in the form of a template.")
    seen, pursued = yield from _report_skill_use(call, lambda shown: bool(kept) and shown[1] == kept)
    if pursued and not any(pursued):
        yield Advice("Only keep the steps that the points depended on, and end with the one that earned them.")
    elif any(pursued):
        yield "Its steps led to points: they are as they should be."
    elif seen:
        yield "That the skill was not chosen is a matter of its target, not of its steps."
    yield from report_results(call.trials)


def judge_skill_target(call: PredictorCall) -> Iterator[str]:
    """Judge the third call. A skill that was offered and never pursued is its fault; the result of a pursuit is due to
    the steps."""
    said = " ".join(call.get_output("target").split())
    seen, pursued = yield from _report_skill_use(call, lambda shown: bool(said) and shown[0] == said)
    if seen and not pursued:
        yield Advice("Always word a skill by what the player wants to reach, so that it is chosen.")
    elif pursued and not any(pursued):
        yield "That no points followed is a matter of the skill's steps, not of its target."
    elif any(pursued):
        yield "It was chosen and led to points: its words are as they should be."
    yield from report_results(call.trials)


def _collect_action_words(excerpt: str) -> frozenset[str]:
    return extract_content_words("\n".join(_ACTION.findall(excerpt)))


def _report_skill_use(
    call: PredictorCall, is_it: Callable[[ShownSkill], bool]
) -> Generator[str, None, tuple[int, list[bool]]]:
    """Report how the skill was used. Returns how many steps offered it and, for each step that pursued it, whether
    points followed. A step that pursues a subgoal copied its target from the prompt."""
    mine = [(skill, shown) for skill, shown in _list_shown_skills(call.results) if is_it(shown)]
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


def _list_shown_skills(given: Iterable[TrialResult]) -> Iterator[tuple[str, ShownSkill]]:
    """Yield id, target and steps of every skill that was in a prompt."""
    for result in given:
        for region, text in result.shown.items():
            name, _, ids = region.partition(":")
            if name == "skills":
                for skill, (goal, body) in zip(ids.split(","), _SUBGOAL.findall(text), strict=False):
                    yield skill, (goal, re.findall(r"^ +\d+\. (.+)$", body, re.M))
