"""The reflector: finds the mistakes in a failed attempt and writes a plan that keeps what raised the score."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rsso_dspy.explorer import advice
from rsso_dspy.explorer.commands import TRAVEL, Command, command, extract_content_words, lines, make, normalize_words
from rsso_dspy.explorer.goals import TaskGoals, parse_task_goals
from rsso_dspy.explorer.prompt_parser import ParsedPrompt
from rsso_dspy.explorer.scene_parser import find_rooms, is_failure
from rsso_dspy.explorer.seeded_noise import SeededNoise

_STEP = re.compile(r"^Step (\d+)\. > (.*)\n?", re.M)
_CHANGE = re.compile(r"step (\d+) \(([+-]\d+)\)")
_EARNED = re.compile(r"([+-]\d+) at step (\d+)")
_LOST = re.compile(r"^Step (\d+), .* \((-\d+) points", re.M)
_SIGHT = re.compile(r"^(?:This (?:room|outside location) is called|You also observe:|You carry\b|\(All that)", re.M)
"""Begins the listing that a transcript shows beneath an observation."""
_OPTION = re.compile(r"^(\d+):\s*(.+)$", re.M)
_IDLE = frozenset({"read", "look in", "use"})
_AT_MOST = 5
_LOOKS_AT_MOST = 14
"""Maximum entries of each list of a plan."""


@dataclass(frozen=True, slots=True)
class RecordedAction:
    """One action of the record."""

    number: int
    text: str
    seen: str
    """What the action was answered, less what was in sight: to search every door that was seen costs more steps than it
    finds."""
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


def write_reflection(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, str]:
    """``what_went_wrong`` and ``plan``. Missing regions count as empty."""
    acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
    aims = parse_task_goals(prompt.get_region("task"))
    start = _STEP.split(prompt.get_region("transcript"), maxsplit=1)[0]
    earlier = prompt.get_region("earlier_plans")
    kept = select_actions_to_repeat(acts)
    points = sum(act.gain for act in acts if act.gain > 0)
    stuck = points > 0 and advice.parse_earned_points(earlier) >= points
    answer = _choose_next_ending(acts, aims, earlier, dice)
    wrong = [
        *_describe_wrong_choices(acts),
        *_describe_failed_actions(acts),
        *_describe_repetitions(acts),
        *_describe_idle_end(acts),
    ]
    if answer and not _list_chosen_endings(acts, aims):
        wrong.append("The choice that the task asks for was never made.")
    plan = []
    if kept:
        steps = "; ".join(act.command.text for act in kept if act.command)
        plan.append(f"Repeat what earned {points} points: {steps}.")
    if answer:
        plan.append(f"Then make the choice: {answer}.")
    plan += [f"Do not {text}." for text in _list_actions_to_avoid(acts, kept, stuck)]
    plan += [f"Avoid {text}." for text in _list_useless_searches(acts, kept)]
    if not answer and not any(act.gain < 0 for act in acts):
        plan += [
            f"Then search a new place: teleport to {room}." for room in _find_unentered_rooms(start, acts, earlier)
        ]
    if not answer:
        plan += [f"Then focus on {name}." for name in _find_missed_targets(acts, aims)]
    return {
        "what_went_wrong": " ".join(wrong) or "The attempt went the right way but came to its end too early.",
        "plan": " ".join(plan) or "Look into other places first and stay with what the task names.",
    }


def parse_transcript(transcript: str, outcome: str) -> list[RecordedAction]:
    """The numbered actions with what was seen after each and what it changed the score by."""
    told = [
        *_CHANGE.findall(outcome),
        *_LOST.findall(outcome),
        *((n, change) for change, n in _EARNED.findall(outcome)),
    ]
    changes = {int(number): int(change) for number, change in told}
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
        done = act.command if act.is_ambiguous else command(_resolve_option_number(acts, act))
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
    ordered = kept[::-1]
    return [act for before, act in zip([None, *ordered], ordered, strict=False) if not _is_repeated_travel(before, act)]


def _is_repeated_travel(before: RecordedAction | None, act: RecordedAction) -> bool:
    """Whether an action travels to the place where the player already is."""
    done = act.command
    return before is not None and before.text == act.text and done is not None and done.verb in TRAVEL


def _describe_wrong_choices(acts: Sequence[RecordedAction]) -> list[str]:
    return [
        f"Step {act.number} ({_resolve_option_number(acts, act)}) was the wrong thing to focus on and cost "
        f"{-act.gain} points."
        for act in acts
        if act.gain < 0
    ]


def _describe_failed_actions(acts: Sequence[RecordedAction]) -> list[str]:
    failed = [act for act in acts if is_failure(act.seen)]
    if not failed:
        return []
    names = ", ".join(dict.fromkeys(act.text for act in failed[:3]))
    return [f"{len(failed)} of {len(acts)} actions did nothing, such as {names}."]


def _describe_repetitions(acts: Sequence[RecordedAction]) -> list[str]:
    counts = Counter(act.text for act in acts if act.text != "wait" and not act.text.isdigit())
    return [f"The action {text} was done {count} times." for text, count in counts.most_common(2) if count > 2]


def _describe_idle_end(acts: Sequence[RecordedAction]) -> list[str]:
    last = max((act.number for act in acts if act.gain > 0), default=0)
    rest = len(acts) - last
    if rest < 3:
        return []
    return ["The steps after the last gain earned nothing." if last else "No step earned anything."]


def _list_possible_endings(aims: TaskGoals) -> list[Command]:
    """The actions one of which has to end the task, by the task's text alone."""
    if aims.choices:
        return [
            make("move", aims.measured, choice.container) if choice.deliver else make("focus", choice.container)
            for choice in aims.choices
        ]
    kind = next((target.name for target in aims.targets if target.last), "")
    return [make("focus", f"{kind} {rival}") for rival in aims.rivals if kind]


def _list_chosen_endings(acts: Sequence[RecordedAction], aims: TaskGoals) -> list[Command]:
    """Endings that were chosen in this attempt."""
    done = [found for act in acts if act.is_effective and (found := command(_resolve_option_number(acts, act)))]
    return [end for end in _list_possible_endings(aims) if any(_is_same_ending(end, each) for each in done)]


def _is_same_ending(end: Command, done: Command) -> bool:
    """Same verb, and the words that tell the ending from its rivals (the last ones) are in what was done."""
    names = end.thing.split()
    telling = end.place or (names[-1] if len(names) > 2 else end.thing)
    return end.verb == done.verb and extract_content_words(telling) <= extract_content_words(done.place or done.thing)


def _find_missed_targets(acts: Sequence[RecordedAction], aims: TaskGoals) -> list[str]:
    """The first thing the task says to focus on, when the attempt focused on nothing of the kind."""
    focused = [
        done.thing for act in acts if (done := command(_resolve_option_number(acts, act))) and done.verb == "focus"
    ]
    missing = [target.name for target in aims.targets if not any(target.is_matched_by(name) for name in focused)]
    return missing[:1]


def _choose_next_ending(acts: Sequence[RecordedAction], aims: TaskGoals, earlier: str, dice: SeededNoise) -> str:
    """The ending to choose next time: one that was not wrong, here or by earlier plans; chance decides among those.
    Things are named the way the attempt named them."""
    ends = _list_possible_endings(aims)
    made = _list_chosen_endings(acts, aims)
    if len(ends) < 2 or (made and not any(act.gain < 0 for act in acts)):
        return ""
    shunned = [line.command for line in lines(earlier) if line.command and not line.positive]
    open_ends = [end for end in ends if end not in made and not any(_is_same_ending(end, each) for each in shunned)]
    if not open_ends:
        return ""
    end = max(open_ends, key=lambda each: dice.draw_noise(each.text, "answer"))
    named = [name for act in acts if (done := act.command) for name in (done.thing, done.place) if name]
    if not aims.choices:
        label = extract_content_words(end.thing.split()[-1])
        full = next((name for name in named if label <= extract_content_words(name)), end.thing)
        end = make(end.verb, full)
    return end.text


def _list_actions_to_avoid(acts: Sequence[RecordedAction], kept: Sequence[RecordedAction], stuck: bool) -> list[str]:
    """Actions to avoid: what cost points, what did nothing and, when two attempts got no further, what was tried after
    the last gain. Never an action of the plan itself."""
    spared = {_resolve_option_number(acts, act) for act in kept} | {act.text for act in kept}
    costly = [_resolve_option_number(acts, act) for act in acts if act.gain < 0]
    useless = [act.text for act in acts if is_failure(act.seen) and act.text and not act.text.isdigit()]
    last = max((act.number for act in acts if act.gain > 0), default=0)
    vain = [
        act.text
        for act in acts
        if act.number > last and act.command and act.command.verb in ("move", "pour", "mix", "activate", "focus")
    ]
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
    ][:_LOOKS_AT_MOST]


def _resolve_option_number(acts: Sequence[RecordedAction], act: RecordedAction) -> str:
    """The action in full: a bare number means the option of the question before it."""
    if not act.text.isdigit() or act.number < 2:
        return act.text
    question = acts[act.number - 2].seen if act.number - 2 < len(acts) else ""
    return {number: normalize_words(option) for number, option in _OPTION.findall(question)}.get(act.text, act.text)


def _find_unentered_rooms(start: str, acts: Sequence[RecordedAction], earlier: str) -> list[str]:
    """Rooms whose doors were seen but that were never entered, here or in an earlier plan; two of them."""
    texts = [start, *(act.seen for act in acts)]
    named = [room for text in texts for room in find_rooms(text)]
    entered = {done.thing for act in acts if (done := act.command) and done.verb in TRAVEL and act.is_effective}
    entered |= set(find_rooms(start)[:1])
    planned = {step.thing for plan in earlier.splitlines() for step in advice.select_plan_steps(plan)}
    return [room for room in dict.fromkeys(named) if room not in entered and room not in planned][:2]
