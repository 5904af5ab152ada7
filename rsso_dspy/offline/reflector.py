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
from rsso_dspy.offline.scene import Target, find_options, find_rooms, is_failure, parse_goals

_STEP = re.compile(r"^Step (\d+)\. > (.*)\n?", re.M)
_GAIN = re.compile(r"([+-]\d+) at step (\d+)")
_LOSS = re.compile(r"^Step (\d+), .* \((-\d+) points", re.M)
_SIGHT = re.compile(r"^(?:This (?:room|outside location) is called|You also observe:|You carry\b|\(All that)", re.M)
"""Begins the listing that a transcript shows beneath an observation."""
_SENTENCES = re.compile(r"(?<=[.!])\s+")
_CIRCLED = re.compile(r"of only \d+ kinds?: (.+)\.$|the same action, (.+), \d+ times\.$", re.M)
_ROOMS = 2  # most new places
_FAILURES = 5  # most useless actions
_LINES = 10  # most distilled lines
_LOOKS = 14  # most useless searches


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
    changes = {}
    for change, step in _GAIN.findall(outcome):
        changes[int(step)] = int(change)
    for step, change in _LOSS.findall(outcome):
        changes[int(step)] = int(change)

    pieces = _STEP.split(transcript)
    acts: list[Act] = []
    for number, action, below in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True):
        text = normalize_words(action)
        observation = _SIGHT.split(below, maxsplit=1)[0].strip()
        gain = changes.get(int(number), 0)
        meant = text
        if acts:
            question = re.sub(r" \(in .*", "", acts[-1].seen)
            meant = find_options(question).get(text, text)
        acts.append(Act(int(number), text, observation, gain, meant))
    return acts


def select_actions_to_repeat(acts: Sequence[Act]) -> list[Act]:
    """The actions that raised the score and those they depend on, in order.

    Read backwards: an action is kept when it raised the score, when a kept action needs a thing it handled, or, for
    travel and opening, when something kept happened in that room afterwards.
    """
    gains = [index for index, act in enumerate(acts) if act.gain > 0]
    last_gain = max(gains, default=-1)
    useful: list[Act] = []
    needed: set[str] = set()
    useful_here = False
    for act in reversed(acts[: last_gain + 1]):
        if "ambiguous request" in act.seen.lower():
            if useful and useful[-1].number == act.number + 1 and useful[-1].text.isdigit():
                useful.append(act)
            continue
        command = act.command
        if command is None or is_failure(act.seen):
            continue

        travels = command.verb in TRAVEL
        about = find_words(f"{command.thing} {command.place}")
        if travels or command.verb == "open":
            is_needed = useful_here
        else:
            is_needed = bool(about & needed)
        if act.gain > 0 or is_needed:
            useful.append(act)
            if not travels:
                needed |= about
            useful_here = True
        if travels:
            useful_here = False
    return useful[::-1]


def write_reflection(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``mistakes`` and ``plan``, and the fields of improvements, of which an adapter asks for those it wants."""
    transcript = prompt.get_region("transcript")
    acts = parse_transcript(transcript, prompt.get_region("outcome"))
    useful = select_actions_to_repeat(acts)
    costly = [act for act in acts if act.gain < 0]
    failed = [act for act in acts if is_failure(act.seen)]
    mistakes = _describe_mistakes(acts, failed, costly)

    target = _find_next_target(prompt.get_region("task"), acts)
    rooms: list[str] = []
    if not costly and not (target and target.last):
        start = _STEP.split(transcript, maxsplit=1)[0]
        rooms = _find_new_rooms(start, acts, prompt.get_region("earlier_plans"))
    orders = [f"Then search a new place: teleport to {room}." for room in rooms]
    if target:
        orders.append(f"Then focus on {target.name}.")

    plan: list[str] = []
    steps = "; ".join(act.text for act in useful)
    if steps:
        earned = sum(act.gain for act in acts if act.gain > 0)
        plan.append(f"Repeat what earned {earned} points: {steps}.")
    actions = _list_useless_actions(failed, costly)
    actions += _list_circled_actions(prompt.get_region("loops"))
    helpful = {"", *(act.meant for act in useful)}
    plan += [f"Do not {action}." for action in dict.fromkeys(actions) if action not in helpful]
    plan += [f"Avoid {search}." for search in _list_useless_searches(acts, useful)]
    plan += orders

    return {
        "mistakes": " ".join(mistakes),
        "plan": " ".join(plan) or "Look into other places first and stay with what the task names.",
        "failed_action_pattern": _describe_failures(failed),
        "root_cause": mistakes[0],
        "missing_exploration": next(iter(rooms), "none"),
        "strategy_adjustment": next(iter(orders), "Stay with what the task names."),
        "priority_locations": rooms,
        **_describe_critical_step(failed, costly, orders),
    }


def _find_next_target(task: str, acts: Sequence[Act]) -> Target | None:
    """What is to be focused on next, after what was focused on without a loss."""
    commands = [act.command for act in acts if act.gain >= 0 and "You focus on" in act.seen]
    focused = [command.thing for command in commands if command]
    for target in parse_goals(task).targets:
        if not any(map(target.is_matched_by, focused)):
            return target
    return None


def _list_useless_actions(failed: Sequence[Act], costly: Sequence[Act]) -> list[str]:
    """The actions that cost points, and the first that did nothing. Travel is none of them: it fails here alone."""
    texts = dict.fromkeys(act.text for act in failed)
    useless = [text for text in texts if text.split(" ")[0] not in TRAVEL]
    return [act.meant for act in costly] + useless[:_FAILURES]


def _list_circled_actions(loops: str) -> list[str]:
    """The actions of semantic loops, but waiting."""
    actions = ", ".join(kinds or action for kinds, action in _CIRCLED.findall(loops))
    return [action for action in actions.split(", ") if not action.startswith("wait")]


def _describe_failures(failed: Sequence[Act]) -> str:
    """The verb that failed most often."""
    verbs = Counter(act.text.split()[0] for act in failed if act.text)
    if not verbs:
        return "none"
    verb, times = verbs.most_common(1)[0]
    return f"{verb}, {times} times without effect"


def _describe_critical_step(failed: Sequence[Act], costly: Sequence[Act], orders: Sequence[str]) -> dict[str, Any]:
    """The step that cost most, or else the first that failed, and what should have been done."""
    candidates = [*costly, *failed[:1]]
    if not candidates:
        return {"critical_step": 0, "should_have_done": "none", "expected_outcome": "none"}
    critical = min(candidates, key=lambda act: act.gain)
    return {
        "critical_step": critical.number,
        "should_have_done": next(iter(orders), "another action"),
        "expected_outcome": "No points or steps would have been lost.",
    }


def distill_plans(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """Never what plans forbid; always what the newest orders; what earned points as the strategy."""
    sentences: list[str] = []
    for plan in split_past_attempts(prompt.get_region("plans")):
        line = plan.replace("\n", " ")
        sentences += [sentence for sentence in _SENTENCES.split(line) if sentence]

    def extend_known(region: str, *openings: str) -> list[str]:
        known_lines = parse_region_list(prompt.get_region(region))
        new_lines = [sentence for sentence in sentences if sentence.startswith(openings)]
        distinct = dict.fromkeys([*known_lines, *new_lines])
        return list(distinct)[-_LINES:]

    repeats = [sentence for sentence in sentences if sentence.startswith("Repeat ")]
    return {
        "never": extend_known("known_never", "Do not ", "Avoid "),
        "always": extend_known("known_always", "Repeat ", "Then "),
        "strategy": repeats[-1] if repeats else prompt.get_region("known_strategy"),
    }


def _describe_mistakes(acts: Sequence[Act], failed: Sequence[Act], costly: Sequence[Act]) -> list[str]:
    """Wrong choices, actions without effect and an idle end, a sentence each."""
    mistakes = [f"Step {act.number} ({act.meant}) was a wrong choice and cost {-act.gain} points." for act in costly]
    if failed:
        names = ", ".join(dict.fromkeys(act.text for act in failed[:3]))
        mistakes.append(f"{len(failed)} of {len(acts)} actions did nothing, such as {names}.")

    gains = [act.number for act in acts if act.gain > 0]
    last_gain = max(gains, default=0)
    if len(acts) - last_gain > 2:
        mistakes.append("The steps after the last gain earned nothing." if last_gain else "No step earned anything.")
    return mistakes or ["The attempt went the right way but came to its end too early."]


def _list_useless_searches(acts: Sequence[Act], kept: Sequence[Act]) -> list[str]:
    """Travel and opening that led to no kept action."""
    useful = {act.meant for act in kept}
    words = {"open": "opening", **dict.fromkeys(TRAVEL, "teleporting to")}
    searches = []
    for act in acts:
        command = act.command
        if act.meant in useful or is_failure(act.seen):
            continue
        if command and command.verb in words:
            searches.append(f"{words[command.verb]} {command.thing}")
    return list(dict.fromkeys(searches))[:_LOOKS]


def _find_new_rooms(start: str, acts: Sequence[Act], earlier: str) -> list[str]:
    """Rooms that were seen at the start or told of, but never entered, here or in an earlier plan. To search every door
    that was in sight costs more steps than it finds."""
    commands = [act.command for act in acts if not is_failure(act.seen)]
    entered = {command.thing for command in commands if command and command.verb in TRAVEL}
    for plan in split_past_attempts(earlier):
        entered |= {step.thing for step in select_plan_steps(plan)}

    observations = [start, *(act.seen for act in acts)]
    rooms = find_rooms("\n".join(observations))
    entered |= set(rooms[:1])  # where the attempt began
    new_rooms = [room for room in dict.fromkeys(rooms) if room not in entered]
    return new_rooms[:_ROOMS]
