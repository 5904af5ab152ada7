"""The reflector: finds the mistakes in a failed attempt and writes a plan that keeps what raised the score.

Of the reflection memory's improvements it answers

    structured      what failed most often, the first sentence of the diagnosis, the rooms to go to
    counterfactual  the step that cost most, else the first that was not understood
    loops           actions that the prompt says went in circles are forbidden in the plan
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsso_dspy.offline.advice import (
    TRAVEL,
    command,
    parse_earned_points,
    read_clauses,
    select_plan_steps,
    split_past_attempts,
)
from rsso_dspy.offline.commands import Command, make_command, normalize_words
from rsso_dspy.offline.drives import TaskGoals, parse_task_goals
from rsso_dspy.offline.grammar import extract_content_words
from rsso_dspy.offline.prompt import ParsedPrompt, SeededNoise, parse_region_list
from rsso_dspy.offline.scene import find_options, find_rooms, is_failure

_STEP = re.compile(r"^Step (\d+)\. > (.*)\n?", re.M)
_CHANGES = (
    re.compile(r"step (?P<step>\d+) \((?P<change>[+-]\d+)\)"),
    re.compile(r"^Step (?P<step>\d+), .* \((?P<change>-\d+) points", re.M),
    re.compile(r"(?P<change>[+-]\d+) at step (?P<step>\d+)"),
)
"""How an outcome tells what a step changed the score by."""
_SIGHT = re.compile(r"^(?:This (?:room|outside location) is called|You also observe:|You carry\b|\(All that)", re.M)
"""Begins the listing that a transcript shows beneath an observation."""
_SENTENCES = re.compile(r"(?<=[.!])\s+")
_KINDS = re.compile(r"of only \d+ kinds?: (.+)\.$|the same action, (.+), \d+ times\.$", re.M)
_PLACES = re.compile(r"(?:search a new place: teleport to|teleport to|go to) ([a-z0-9 ]+?)(?=[.;,]|$)")
_IDLE = frozenset({"read", "look in", "use"})
_TRIED = ("move", "pour", "mix", "activate", "focus")
_FEW, _AT_MOST, _LINES, _LOOKS = 3, 5, 10, 14
"""Maximum entries: of loops and places, of each kind of useless action, of distilled lines, of searches."""


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """One action of the record. ``seen`` is what it was answered, less what was in sight: to search every door that was
    seen costs more steps than it finds."""

    number: int
    text: str
    seen: str
    gain: int

    @property
    def command(self) -> Command | None:
        return command(self.text)

    @property
    def is_effective(self) -> bool:
        return not is_failure(self.seen) and self.command is not None

    @property
    def is_ambiguous(self) -> bool:
        """Whether the world asked which action was meant."""
        return "ambiguous request" in self.seen.lower()


def write_full_reflection(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """``what_went_wrong`` and ``plan``, and the fields of improvements, of which an adapter asks for those it wants."""
    acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
    wrong, plan = _write_reflection(acts, prompt, dice)
    plan = " ".join(
        [plan, *(f"Do not {each}." for each in _list_circled(prompt.get_region("loops")) if each not in plan)]
    )
    orders = [each for each in _SENTENCES.split(plan) if each.startswith("Then ")]
    failed = [act for act in acts if is_failure(act.seen)]
    verbs = Counter(act.text.split()[0] for act in failed if act.text).most_common(1)
    costly = min((act for act in acts if act.gain < 0), key=lambda act: act.gain, default=None)
    critical = costly or next(iter(failed), None)
    instead = orders[0].removeprefix("Then ").rstrip(".") if orders else "another action"
    better = "The points would have stayed." if costly else "The step would not have been wasted."
    return {
        "what_went_wrong": wrong,
        "plan": plan,
        "failed_action_pattern": next((f"{verb}, {times} times without effect" for verb, times in verbs), "none"),
        "root_cause": _SENTENCES.split(wrong)[0],
        "missing_exploration": next((each for each in orders if "new place" in each), "none"),
        "strategy_adjustment": orders[0] if orders else "Stay with what the task names.",
        "priority_locations": list(dict.fromkeys(_PLACES.findall(plan)))[:_FEW],
        "critical_step": critical.number if critical else 0,
        "should_have_done": instead if critical else "none",
        "expected_outcome": better if critical else "none",
    }


def distill_plans(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """Never what plans forbid; always what the newest orders; its first order as the strategy."""
    plans = split_past_attempts(prompt.get_region("plans"))
    sentences = [each for plan in plans for each in _SENTENCES.split(plan.replace("\n", " ")) if each]
    never = [each for each in sentences if each.startswith(("Do not ", "Avoid "))]
    orders = [each for each in sentences if each.startswith(("Repeat ", "Then "))]
    strategy = next((each for each in reversed(orders) if each.startswith("Repeat ")), "")

    def merge(known: str, new: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*map(str, parse_region_list(prompt.get_region(known))), *new]))[-_LINES:]

    return {
        "never": merge("known_never", never),
        "always": merge("known_always", orders[-2:]),
        "strategy": strategy or prompt.get_region("known_strategy"),
    }


def parse_transcript(transcript: str, outcome: str) -> list[RecordedAction]:
    """The numbered actions with what was seen after each and what it changed the score by."""
    changes = {int(found["step"]): int(found["change"]) for each in _CHANGES for found in each.finditer(outcome)}
    pieces = _STEP.split(transcript)
    return [
        RecordedAction(
            int(number),
            normalize_words(text),
            _SIGHT.split(sight, maxsplit=1)[0].strip(),
            changes.get(int(number), 0),
        )
        for number, text, sight in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)
    ]


def select_actions_to_repeat(acts: Sequence[RecordedAction]) -> list[RecordedAction]:
    """The actions that raised the score and those they depend on, in order.

    Read backwards: an action is kept when it raised the score, when a kept action needs a thing it handled, or, for
    travel and opening, when something kept happened in that room afterwards.
    """
    last = max((index for index, act in enumerate(acts) if act.gain > 0), default=-1)
    kept: list[RecordedAction] = []
    needed: set[str] = set()
    useful_here = False
    chosen = False
    for act in reversed(acts[: last + 1]):
        done = act.command if act.is_ambiguous else command(_resolve_option(acts, act))
        if done is None or not (act.is_effective or act.is_ambiguous):
            continue
        about = extract_content_words(f"{done.thing} {done.place}")
        travel = done.verb in TRAVEL
        if act.is_ambiguous:
            keep = chosen
        elif travel:
            keep = act.gain > 0 or useful_here
            useful_here = False
        elif done.verb in _IDLE:
            keep = act.gain > 0
        elif done.verb in ("open", "wait", "focus"):
            keep = act.gain > 0 or useful_here
        else:
            keep = act.gain > 0 or bool(about & needed)
        chosen = keep and act.text.isdigit()
        if keep:
            kept.append(act)
            if not travel:
                useful_here = True
                needed |= about
    texts = ["", *(act.text for act in kept[::-1])]
    return [  # without travel to the place where the player is already
        act
        for before, act in zip(texts, kept[::-1], strict=False)
        if before != act.text or (act.command and act.command.verb not in TRAVEL)
    ]


def _write_reflection(acts: Sequence[RecordedAction], prompt: ParsedPrompt, dice: SeededNoise) -> tuple[str, str]:
    """What went wrong, and the plan."""
    goals = parse_task_goals(prompt.get_region("task"))
    earlier = prompt.get_region("earlier_plans")
    kept = select_actions_to_repeat(acts)
    points = sum(act.gain for act in acts if act.gain > 0)
    stuck = points > 0 and parse_earned_points(earlier) >= points
    ending = _choose_next_ending(acts, goals, earlier, dice)
    wrong = _describe_mistakes(acts)
    if ending and not _list_chosen_endings(acts, goals):
        wrong.append("The choice that the task asks for was never made.")
    plan = []
    if kept:
        plan.append(
            f"Repeat what earned {points} points: {'; '.join(act.command.text for act in kept if act.command)}."
        )
    if ending:
        plan.append(f"Then make the choice: {ending}.")
    plan += [f"Do not {text}." for text in _list_actions_to_avoid(acts, kept, stuck)]
    plan += [f"Avoid {text}." for text in _list_useless_searches(acts, kept)]
    if not ending:
        start = _STEP.split(prompt.get_region("transcript"), maxsplit=1)[0]
        rooms = [] if any(act.gain < 0 for act in acts) else _find_unentered_rooms(start, acts, earlier)
        plan += [f"Then search a new place: teleport to {room}." for room in rooms]
        plan += [f"Then focus on {name}." for name in _find_missed_targets(acts, goals)]
    return (
        " ".join(wrong) or "The attempt went the right way but came to its end too early.",
        " ".join(plan) or "Look into other places first and stay with what the task names.",
    )


def _describe_mistakes(acts: Sequence[RecordedAction]) -> list[str]:
    """Wrong choices, actions without effect, repetitions and an idle end, a sentence each."""
    wrong = [
        f"Step {act.number} ({_resolve_option(acts, act)}) was the wrong thing to focus on and cost {-act.gain} points."
        for act in acts
        if act.gain < 0
    ]
    if failed := [act.text for act in acts if is_failure(act.seen)]:
        names = ", ".join(dict.fromkeys(failed[:3]))
        wrong.append(f"{len(failed)} of {len(acts)} actions did nothing, such as {names}.")
    counts = Counter(act.text for act in acts if act.text != "wait" and not act.text.isdigit()).most_common(2)
    wrong += [f"The action {text} was done {count} times." for text, count in counts if count > 2]
    last = max((act.number for act in acts if act.gain > 0), default=0)
    if len(acts) - last > 2:
        wrong.append("The steps after the last gain earned nothing." if last else "No step earned anything.")
    return wrong


def _list_possible_endings(goals: TaskGoals) -> list[Command]:
    """The actions one of which has to end the task, by the task's text alone."""
    if goals.choices:
        return [
            make_command("move", goals.measured, each.container)
            if each.deliver
            else make_command("focus", each.container)
            for each in goals.choices
        ]
    kind = next((target.name for target in goals.targets if target.last), "")
    return [make_command("focus", f"{kind} {rival}") for rival in goals.rivals if kind]


def _list_chosen_endings(acts: Sequence[RecordedAction], goals: TaskGoals) -> list[Command]:
    """Endings that were chosen in this attempt."""
    done = [found for act in acts if act.is_effective and (found := command(_resolve_option(acts, act)))]
    return [end for end in _list_possible_endings(goals) if any(_is_same_ending(end, each) for each in done)]


def _is_same_ending(end: Command, done: Command) -> bool:
    """Same verb, and the words that tell the ending from its rivals (the last ones) are in what was done."""
    names = end.thing.split()
    telling = end.place or (names[-1] if len(names) > 2 else end.thing)
    return end.verb == done.verb and extract_content_words(telling) <= extract_content_words(done.place or done.thing)


def _choose_next_ending(acts: Sequence[RecordedAction], goals: TaskGoals, earlier: str, dice: SeededNoise) -> str:
    """The ending to choose next time: one that was not wrong, here or by earlier plans; chance decides among those.
    Things are named the way the attempt named them."""
    ends, made = _list_possible_endings(goals), _list_chosen_endings(acts, goals)
    if len(ends) < 2 or (made and not any(act.gain < 0 for act in acts)):
        return ""
    shunned = [clause.command for clause in read_clauses(earlier) if clause.command and not clause.positive]
    open_ends = [end for end in ends if end not in made and not any(_is_same_ending(end, each) for each in shunned)]
    if not open_ends:
        return ""
    end = max(open_ends, key=lambda each: dice.draw_noise(each.text, "answer"))
    if not goals.choices:
        named = [name for act in acts if (done := act.command) for name in (done.thing, done.place) if name]
        label = extract_content_words(end.thing.split()[-1])
        end = make_command(end.verb, next((name for name in named if label <= extract_content_words(name)), end.thing))
    return end.text


def _list_actions_to_avoid(acts: Sequence[RecordedAction], kept: Sequence[RecordedAction], stuck: bool) -> list[str]:
    """Actions to avoid: what cost points, what did nothing and, when two attempts got no further, what was tried after
    the last gain. Never an action of the plan itself."""
    spared = {_resolve_option(acts, act) for act in kept} | {act.text for act in kept}
    costly = [_resolve_option(acts, act) for act in acts if act.gain < 0]
    useless = [act.text for act in acts if is_failure(act.seen) and act.text and not act.text.isdigit()]
    last = max((act.number for act in acts if act.gain > 0), default=0)
    vain = [act.text for act in acts if act.number > last and act.command and act.command.verb in _TRIED]
    found = [*costly, *list(dict.fromkeys(useless))[:_AT_MOST], *list(dict.fromkeys(vain))[: _AT_MOST * stuck]]
    return [text for text in dict.fromkeys(found) if text not in spared]


def _list_useless_searches(acts: Sequence[RecordedAction], kept: Sequence[RecordedAction]) -> list[str]:
    """Travel and opening that led to no kept action."""
    looked = [done for act in acts if (done := act.command) and done.verb in (*TRAVEL, "open") and act.is_effective]
    useful = {(done.verb, done.thing) for act in kept if (done := act.command)}
    return [
        f"{'opening' if done.verb == 'open' else 'teleporting to'} {done.thing}"
        for done in dict.fromkeys(looked)
        if (done.verb, done.thing) not in useful
    ][:_LOOKS]


def _find_unentered_rooms(start: str, acts: Sequence[RecordedAction], earlier: str) -> list[str]:
    """Rooms whose doors were seen but that were never entered, here or in an earlier plan; two of them."""
    named = [room for text in (start, *(act.seen for act in acts)) for room in find_rooms(text)]
    entered = {done.thing for act in acts if (done := act.command) and done.verb in TRAVEL and act.is_effective}
    entered |= set(find_rooms(start)[:1])
    entered |= {step.thing for plan in earlier.splitlines() for step in select_plan_steps(plan)}
    return [room for room in dict.fromkeys(named) if room not in entered][:2]


def _find_missed_targets(acts: Sequence[RecordedAction], goals: TaskGoals) -> list[str]:
    """The first thing the task says to focus on, when the attempt focused on nothing of the kind."""
    done = [found for act in acts if (found := command(_resolve_option(acts, act)))]
    focused = [each.thing for each in done if each.verb == "focus"]
    return [target.name for target in goals.targets if not any(map(target.is_matched_by, focused))][:1]


def _resolve_option(acts: Sequence[RecordedAction], act: RecordedAction) -> str:
    """The action in full: a bare number means the option of the question before it."""
    if not act.text.isdigit() or not 2 <= act.number < len(acts) + 2:
        return act.text
    return find_options(acts[act.number - 2].seen).get(act.text, act.text)


def _list_circled(loops: str) -> list[str]:
    """Actions that the loops region names, without waiting."""
    named = [action for kinds, same in _KINDS.findall(loops) for action in (kinds or same).split(", ")]
    acts = [normalize_words(action) for action in named if action.strip() and not action.startswith("wait")]
    return list(dict.fromkeys(acts))[:_FEW]
