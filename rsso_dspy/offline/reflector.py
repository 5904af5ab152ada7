"""The reflector: finds the mistakes in a failed attempt and writes a plan that keeps what raised the score, says what
not to do again and where to look next. The fields of the reflection memory's improvements are made of the same."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rsso_dspy.offline.advice import (
    TRAVEL,
    Command,
    find_words,
    normalize_words,
    parse_command,
    select_plan_steps,
    split_past_attempts,
)
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list
from rsso_dspy.offline.scene import find_options, find_rooms, is_failure, parse_goals

_STEP = re.compile(r"^Step (\d+)\. > (.*)\n?", re.M)
_GAIN = re.compile(r"([+-]\d+) at step (\d+)")
_LOSS = re.compile(r"^Step (\d+), .* \((-\d+) points", re.M)
_SIGHT = re.compile(r"^(?:This (?:room|outside location) is called|You also observe:|You carry\b|\(All that)", re.M)
"""Begins the listing that a transcript shows beneath an observation."""
_SENTENCES = re.compile(r"(?<=[.!])\s+")
_CIRCLED = re.compile(r"of only \d+ kinds?: (.+)\.$|the same action, (.+), \d+ times\.$", re.M)
_ROOMS, _FAILURES, _LINES, _LOOKS = 2, 5, 10, 14  # most new places, useless actions, distilled lines, useless searches


class Act(NamedTuple):
    number: int
    text: str
    seen: str  # what it was answered, less what was in sight
    gain: int
    meant: str  # the action in full: of an answer to a question the option that it chose

    @property
    def command(self) -> Command | None:
        return parse_command(self.meant)


def parse_transcript(transcript: str, outcome: str) -> list[Act]:
    """The numbered actions with what was seen after each and what it changed the score by."""
    changes = {int(step): int(change) for change, step in _GAIN.findall(outcome)}
    changes |= {int(step): int(change) for step, change in _LOSS.findall(outcome)}
    pieces = _STEP.split(transcript)
    acts: list[Act] = []
    for number, action, below in zip(*(pieces[start::3] for start in (1, 2, 3)), strict=True):
        text = normalize_words(action)
        observation = _SIGHT.split(below, maxsplit=1)[0].strip()
        meant = find_options(re.sub(r" \(in .*", "", acts[-1].seen)).get(text, text) if acts else text
        acts.append(Act(int(number), text, observation, changes.get(int(number), 0), meant))
    return acts


def select_actions_to_repeat(acts: Sequence[Act]) -> list[Act]:
    """The actions that raised the score and those they depend on, in order.

    Read backwards: an action is kept when it raised the score, when a kept action needs a thing it handled, or, for
    travel and opening, when something kept happened in that room afterwards.
    """
    last = max((index for index, act in enumerate(acts) if act.gain > 0), default=-1)
    useful: list[Act] = []
    needed: set[str] = set()
    useful_here = False
    for act in reversed(acts[: last + 1]):
        command = act.command
        if "ambiguous request" in act.seen.lower():
            if useful and useful[-1].number == act.number + 1 and useful[-1].text.isdigit():
                useful.append(act)
        elif command and not is_failure(act.seen):
            about = find_words(f"{command.thing} {command.place}")
            if act.gain > 0 or (useful_here if command.verb in (*TRAVEL, "open") else about & needed):
                useful.append(act)
                needed |= set() if command.verb in TRAVEL else about
                useful_here = True
            if command.verb in TRAVEL:
                useful_here = False
    return useful[::-1]


def write_reflection(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``mistakes`` and ``plan``, and the fields of improvements, of which an adapter asks for those it wants."""
    transcript = prompt.get_region("transcript")
    acts = parse_transcript(transcript, prompt.get_region("outcome"))
    useful = select_actions_to_repeat(acts)
    costly = [act for act in acts if act.gain < 0]
    failed = [act for act in acts if is_failure(act.seen)]
    wrong = _describe_mistakes(acts, failed, costly)
    useless = dict.fromkeys(act.text for act in failed if act.text.split(" ")[0] not in TRAVEL)  # fails here alone
    tried = [*(act.meant for act in costly), *list(useless)[:_FAILURES]]
    circled = ", ".join(kinds or action for kinds, action in _CIRCLED.findall(prompt.get_region("loops"))).split(", ")
    shunned = dict.fromkeys([*tried, *(action for action in circled if not action.startswith("wait"))])
    steps = "; ".join(act.text for act in useful)
    earned = sum(act.gain for act in acts if act.gain > 0)
    focuses = [act.command for act in acts if act.gain >= 0 and "You focus on" in act.seen]
    right = [command.thing for command in focuses if command]
    targets = parse_goals(prompt.get_region("task")).targets
    target = next((candidate for candidate in targets if not any(map(candidate.is_matched_by, right))), None)
    start = _STEP.split(transcript, maxsplit=1)[0]
    stays = costly or (target and target.last)
    rooms = [] if stays else _find_new_rooms(start, acts, prompt.get_region("earlier_plans"))
    orders = [f"Then search a new place: teleport to {room}." for room in rooms]
    orders += [f"Then focus on {target.name}."] if target else []
    plan = [
        *([f"Repeat what earned {earned} points: {steps}."] if steps else []),
        *(f"Do not {text}." for text in shunned if text and text not in {act.meant for act in useful}),
        *(f"Avoid {search}." for search in _list_useless_searches(acts, useful)),
        *orders,
    ]
    verbs = Counter(act.text.split()[0] for act in failed if act.text).most_common(1)
    critical = min([*costly, *failed[:1]], key=lambda act: act.gain, default=None)
    return {
        "mistakes": " ".join(wrong),
        "plan": " ".join(plan) or "Look into other places first and stay with what the task names.",
        "failed_action_pattern": next((f"{verb}, {times} times without effect" for verb, times in verbs), "none"),
        "root_cause": wrong[0],
        "missing_exploration": next(iter(rooms), "none"),
        "strategy_adjustment": next(iter(orders), "Stay with what the task names."),
        "priority_locations": rooms,
        "critical_step": critical.number if critical else 0,
        "should_have_done": next(iter(orders), "another action") if critical else "none",
        "expected_outcome": "No points or steps would have been lost." if critical else "none",
    }


def distill_plans(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """Never what plans forbid; always what the newest orders; what earned points as the strategy."""
    plans = split_past_attempts(prompt.get_region("plans"))
    sentences = [sentence for plan in plans for sentence in _SENTENCES.split(plan.replace("\n", " ")) if sentence]
    repeat = [sentence for sentence in sentences if sentence.startswith("Repeat ")]

    def merge(known: str, *openings: str) -> list[str]:
        new = [sentence for sentence in sentences if sentence.startswith(openings)]
        return list(dict.fromkeys([*parse_region_list(prompt.get_region(known)), *new]))[-_LINES:]

    return {
        "never": merge("known_never", "Do not ", "Avoid "),
        "always": merge("known_always", "Repeat ", "Then "),
        "strategy": repeat[-1] if repeat else prompt.get_region("known_strategy"),
    }


def _describe_mistakes(acts: Sequence[Act], failed: Sequence[Act], costly: Sequence[Act]) -> list[str]:
    """Wrong choices, actions without effect and an idle end, a sentence each."""
    wrong = [f"Step {act.number} ({act.meant}) was a wrong choice and cost {-act.gain} points." for act in costly]
    if failed:
        names = ", ".join(dict.fromkeys(act.text for act in failed[:3]))
        wrong.append(f"{len(failed)} of {len(acts)} actions did nothing, such as {names}.")
    last = max((act.number for act in acts if act.gain > 0), default=0)
    if len(acts) - last > 2:
        wrong.append("The steps after the last gain earned nothing." if last else "No step earned anything.")
    return wrong or ["The attempt went the right way but came to its end too early."]


def _list_useless_searches(acts: Sequence[Act], kept: Sequence[Act]) -> list[str]:
    """Travel and opening that led to no kept action."""
    useful = {act.meant for act in kept}
    looked = [act.command for act in acts if act.meant not in useful and not is_failure(act.seen)]
    words = {"open": "opening", **dict.fromkeys(TRAVEL, "teleporting to")}
    searches = [f"{words[command.verb]} {command.thing}" for command in looked if command and command.verb in words]
    return list(dict.fromkeys(searches))[:_LOOKS]


def _find_new_rooms(start: str, acts: Sequence[Act], earlier: str) -> list[str]:
    """Rooms that were seen at the start or told of, but never entered, here or in an earlier plan. To search every door
    that was in sight costs more steps than it finds."""
    commands = [act.command for act in acts if not is_failure(act.seen)]
    entered = {command.thing for command in commands if command and command.verb in TRAVEL}
    entered |= {step.thing for plan in split_past_attempts(earlier) for step in select_plan_steps(plan)}
    rooms = find_rooms("\n".join([start, *(act.seen for act in acts)]))
    return [room for room in dict.fromkeys(rooms) if room not in {*entered, *rooms[:1]}][:_ROOMS]
