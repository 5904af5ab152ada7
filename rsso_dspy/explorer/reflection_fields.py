"""The offline reflector's fields of its improvements, and how it distils plans: from the prompt alone.

structured      what failed most often, the first sentence of the diagnosis, the rooms to go to
counterfactual  the step that cost most, else the first that was not understood
loops           actions that the prompt says went in circles are forbidden in the plan
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rsso_dspy.explorer.advice import split_past_attempts
from rsso_dspy.explorer.commands import normalize_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, parse_region_list
from rsso_dspy.explorer.reflector import RecordedAction, parse_transcript, write_reflection
from rsso_dspy.explorer.scene_parser import is_failure
from rsso_dspy.explorer.seeded_noise import SeededNoise

_SENTENCES = re.compile(r"(?<=[.!])\s+")
_KINDS = re.compile(r"of only \d+ kinds?: (.+)\.$|the same action, (.+), \d+ times\.$", re.M)
_PLACES = re.compile(r"(?:search a new place: teleport to|teleport to|go to) ([a-z0-9 ]+?)(?=[.;,]|$)")
_LOOPS_AT_MOST = 3
_LINES_AT_MOST = 10


def write_full_reflection(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """`write_reflection` with the fields of improvements, of which an adapter asks for those it wants."""
    written = dict(write_reflection(prompt, dice))
    circled = _list_circled_actions(prompt.get_region("loops"))
    forbidden = [f"Do not {action}." for action in circled if action not in written["plan"]]
    plan = " ".join([written["plan"], *forbidden])
    if "root_cause" not in prompt.layout.wanted and "critical_step" not in prompt.layout.wanted:
        return {**written, "plan": plan}
    acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
    return {**written, "plan": plan, **_describe_structure(acts, written, plan), **_describe_critical_step(acts, plan)}


def distill_plans(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:  # noqa: ARG001
    """Never what several plans forbid, or the newest does; always what the newest orders; its first order as the
    strategy."""
    plans = split_past_attempts(prompt.get_region("plans"))
    sentences = [each for plan in plans for each in _SENTENCES.split(plan.replace("\n", " ")) if each]
    never = [each for each in sentences if each.startswith(("Do not ", "Avoid "))]
    orders = [each for each in sentences if each.startswith(("Repeat ", "Then "))]
    strategy = next((each for each in reversed(orders) if each.startswith("Repeat ")), "")
    return {
        "never": _merge_lines(parse_region_list(prompt.get_region("known_never")), never),
        "always": _merge_lines(parse_region_list(prompt.get_region("known_always")), orders[-2:]),
        "strategy": strategy or prompt.get_region("known_strategy"),
    }


def _describe_structure(acts: Sequence[RecordedAction], written: Mapping[str, str], plan: str) -> dict[str, Any]:
    failed = Counter(act.text.split()[0] for act in acts if is_failure(act.seen) and act.text)
    pattern = next((f"{verb}, {times} times without effect" for verb, times in failed.most_common(1)), "none")
    places = list(dict.fromkeys(_PLACES.findall(plan)))
    orders = [each for each in _SENTENCES.split(plan) if each.startswith("Then ")]
    return {
        "failed_action_pattern": pattern,
        "root_cause": _SENTENCES.split(written["what_went_wrong"])[0],
        "missing_exploration": next((each for each in orders if "new place" in each), "none"),
        "strategy_adjustment": orders[0] if orders else "Stay with what the task names.",
        "priority_locations": places[:_LOOPS_AT_MOST],
    }


def _describe_critical_step(acts: Sequence[RecordedAction], plan: str) -> dict[str, Any]:
    """The step that cost most points, else the first that was not understood, else none."""
    lost = min((act for act in acts if act.gain < 0), key=lambda act: act.gain, default=None)
    critical = lost or next((act for act in acts if is_failure(act.seen)), None)
    if critical is None:
        return {"critical_step": 0, "should_have_done": "none", "expected_outcome": "none"}
    orders = [each for each in _SENTENCES.split(plan) if each.startswith("Then ")]
    return {
        "critical_step": critical.number,
        "should_have_done": orders[0].removeprefix("Then ").rstrip(".") if orders else "another action",
        "expected_outcome": "The points would have stayed." if lost else "The step would not have been wasted.",
    }


def _list_circled_actions(loops: str) -> list[str]:
    """Actions that the loops region names, without waiting."""
    named = [action for kinds, same in _KINDS.findall(loops) for action in (kinds or same).split(", ")]
    acts = [normalize_words(action) for action in named if action.strip() and not action.startswith("wait")]
    return list(dict.fromkeys(acts))[:_LOOPS_AT_MOST]


def _merge_lines(known: Sequence[Any], new: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*map(str, known), *new]))[-_LINES_AT_MOST:]
