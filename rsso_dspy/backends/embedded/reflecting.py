"""The reflector: from the record of a failed attempt to its mistakes and a plan that keeps what raised the score."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rsso_dspy.backends.embedded import advice
from rsso_dspy.backends.embedded.commands import Command, command, lines, make, plain, words
from rsso_dspy.backends.embedded.dice import Dice
from rsso_dspy.backends.embedded.goals import Goals, goals
from rsso_dspy.backends.embedded.reading import Prompt
from rsso_dspy.backends.embedded.world import is_failure, rooms_named

_STEP = re.compile(r"^Step (\d+)\. > (.*)\n?", re.M)
_CHANGE = re.compile(r"step (\d+) \(([+-]\d+)\)")
_OPTION = re.compile(r"^(\d+):\s*(.+)$", re.M)
_TRAVEL = frozenset({"teleport", "go"})
_IDLE = frozenset({"read", "look in", "use"})
_AT_MOST = 5
_LOOKS_AT_MOST = 14
"""Bound on each list of a plan."""


@dataclass(frozen=True, slots=True)
class Act:
    """One action of the record."""

    number: int
    text: str
    seen: str
    gain: int

    @property
    def command(self) -> Command | None:
        return command(self.text)

    @property
    def understood(self) -> bool:
        return not is_failure(self.seen) and self.command is not None

    @property
    def asked(self) -> bool:
        """The world asked which action was meant."""
        return "ambiguous request" in self.seen.lower()


def reflect(prompt: Prompt, dice: Dice) -> Mapping[str, str]:
    """``what_went_wrong`` and ``plan``. Regions that are missing count as empty."""
    acts = record(prompt.region("transcript"), prompt.region("outcome"))
    aims = goals(prompt.region("task"))
    start = _STEP.split(prompt.region("transcript"), maxsplit=1)[0]
    earlier = prompt.region("earlier_plans")
    kept = worth_repeating(acts)
    points = sum(act.gain for act in acts if act.gain > 0)
    stuck = points > 0 and advice.earned(earlier) >= points
    answer = _answer(acts, aims, earlier, dice)
    wrong = [*_wrong_choices(acts), *_not_understood(acts), *_circles(acts), *_idle_end(acts)]
    if answer and not _choices_made(acts, aims):
        wrong.append("The choice that the task asks for was never made.")
    plan = []
    if kept:
        steps = "; ".join(act.command.text for act in kept if act.command)
        plan.append(f"Repeat what earned {points} points: {steps}.")
    if answer:
        plan.append(f"Then make the choice: {answer}.")
    plan += [f"Do not {text}." for text in _never_again(acts, kept, stuck)]
    plan += [f"Avoid {text}." for text in _of_no_use(acts, kept)]
    if not answer and not any(act.gain < 0 for act in acts):
        plan += [f"Then search a new place: teleport to {room}." for room in _unseen_rooms(start, acts, earlier)]
    if not answer:
        plan += [f"Then focus on {name}." for name in _never_focused(acts, aims)]
    return {
        "what_went_wrong": " ".join(wrong) or "The attempt went the right way but came to its end too early.",
        "plan": " ".join(plan) or "Look into other places first and stay with what the task names.",
    }


def record(transcript: str, outcome: str) -> list[Act]:
    """The numbered actions with what was seen after each and what it changed the score by."""
    changes = {int(number): int(change) for number, change in _CHANGE.findall(outcome)}
    pieces = _STEP.split(transcript)
    return [
        Act(int(number), plain(text), seen.strip(), changes.get(int(number), 0))
        for number, text, seen in zip(pieces[1::3], pieces[2::3], pieces[3::3], strict=True)
    ]


def worth_repeating(acts: Sequence[Act]) -> list[Act]:
    """The actions that raised the score and those they rest on, in order.

    Read backwards: an action is kept when it raised the score, when a kept action needs a thing it handled, or, for
    travel and opening, when something kept happened in that room afterwards.
    """
    last = max((index for index, act in enumerate(acts) if act.gain > 0), default=-1)
    kept: list[Act] = []
    needed: set[str] = set()
    useful_here = False
    chosen = False
    for act in reversed(acts[: last + 1]):
        done = act.command if act.asked else command(_meaning(acts, act))
        if done is None or not (act.understood or act.asked):
            continue
        about = words(f"{done.thing} {done.place}")
        travel = done.verb in _TRAVEL
        if act.asked:
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
    return [act for before, act in zip([None, *ordered], ordered, strict=False) if not _same_way(before, act)]


def _same_way(before: Act | None, act: Act) -> bool:
    """Going again where one already is."""
    done = act.command
    return before is not None and before.text == act.text and done is not None and done.verb in _TRAVEL


def _wrong_choices(acts: Sequence[Act]) -> list[str]:
    return [
        f"Step {act.number} ({_meaning(acts, act)}) was the wrong thing to focus on and cost {-act.gain} points."
        for act in acts
        if act.gain < 0
    ]


def _not_understood(acts: Sequence[Act]) -> list[str]:
    failed = [act for act in acts if is_failure(act.seen)]
    if not failed:
        return []
    names = ", ".join(dict.fromkeys(act.text for act in failed[:3]))
    return [f"{len(failed)} of {len(acts)} actions did nothing, such as {names}."]


def _circles(acts: Sequence[Act]) -> list[str]:
    counts = Counter(act.text for act in acts if act.text != "wait" and not act.text.isdigit())
    return [f"The action {text} was done {count} times." for text, count in counts.most_common(2) if count > 2]


def _idle_end(acts: Sequence[Act]) -> list[str]:
    last = max((act.number for act in acts if act.gain > 0), default=0)
    rest = len(acts) - last
    if rest < 3:
        return []
    return ["The steps after the last gain earned nothing." if last else "No step earned anything."]


def _endings(aims: Goals) -> list[Command]:
    """The actions one of which has to end the task, by the task's text alone."""
    if aims.choices:
        return [
            make("move", aims.measured, choice.container) if choice.deliver else make("focus", choice.container)
            for choice in aims.choices
        ]
    kind = next((target.name for target in aims.targets if target.last), "")
    return [make("focus", f"{kind} {rival}") for rival in aims.rivals if kind]


def _choices_made(acts: Sequence[Act], aims: Goals) -> list[Command]:
    """Endings that were chosen in this attempt."""
    done = [found for act in acts if act.understood and (found := command(_meaning(acts, act)))]
    return [end for end in _endings(aims) if any(_same_end(end, each) for each in done)]


def _same_end(end: Command, done: Command) -> bool:
    """Same verb, and the words that tell the ending from its rivals (the last ones) are in what was done."""
    told = words((end.place or end.thing).split()[-1]) if not end.place else words(end.place)
    whole = told if not end.place and len(end.thing.split()) > 2 else words(end.place or end.thing)
    return end.verb == done.verb and whole <= words(done.place or done.thing)


def _never_focused(acts: Sequence[Act], aims: Goals) -> list[str]:
    """The first thing the task says to focus on, when the attempt focused on nothing of the kind."""
    focused = [done.thing for act in acts if (done := command(_meaning(acts, act))) and done.verb == "focus"]
    missing = [target.name for target in aims.targets if not any(target.fits(name) for name in focused)]
    return missing[:1]


def _answer(acts: Sequence[Act], aims: Goals, earlier: str, dice: Dice) -> str:
    """The ending to choose next time: one that was not wrong, here or by earlier plans; chance decides among those.
    Things are named the way the attempt named them."""
    ends = _endings(aims)
    made = _choices_made(acts, aims)
    if len(ends) < 2 or (made and not any(act.gain < 0 for act in acts)):
        return ""
    shunned = [line.command for line in lines(earlier) if line.command and not line.positive]
    open_ends = [end for end in ends if end not in made and not any(_same_end(end, each) for each in shunned)]
    if not open_ends:
        return ""
    end = max(open_ends, key=lambda each: dice.throw(each.text, "answer"))
    named = [name for act in acts if (done := act.command) for name in (done.thing, done.place) if name]
    if not aims.choices:
        label = words(end.thing.split()[-1])
        full = next((name for name in named if label <= words(name)), end.thing)
        end = make(end.verb, full)
    return end.text


def _never_again(acts: Sequence[Act], kept: Sequence[Act], stuck: bool) -> list[str]:
    """Actions to avoid: what cost points, what did nothing and, when two attempts got no further, what was tried after
    the last gain. Never an action of the plan itself."""
    spared = {_meaning(acts, act) for act in kept} | {act.text for act in kept}
    costly = [_meaning(acts, act) for act in acts if act.gain < 0]
    useless = [act.text for act in acts if is_failure(act.seen) and act.command and not act.text.isdigit()]
    last = max((act.number for act in acts if act.gain > 0), default=0)
    vain = [
        act.text
        for act in acts
        if act.number > last and act.command and act.command.verb in ("move", "pour", "mix", "activate", "focus")
    ]
    found = [*costly, *list(dict.fromkeys(useless))[:_AT_MOST], *list(dict.fromkeys(vain))[: _AT_MOST * stuck]]
    return [text for text in dict.fromkeys(found) if text not in spared]


def _of_no_use(acts: Sequence[Act], kept: Sequence[Act]) -> list[str]:
    """Going to rooms and opening things that nothing kept came of."""
    looked = [done for act in acts if (done := act.command) and done.verb in (*_TRAVEL, "open") and act.understood]
    useful = {(done.verb, done.thing) for act in kept if (done := act.command)}
    return [
        f"{'opening' if done.verb == 'open' else 'teleporting to'} {done.thing}"
        for done in dict.fromkeys(looked)
        if (done.verb, done.thing) not in useful
    ][:_LOOKS_AT_MOST]


def _meaning(acts: Sequence[Act], act: Act) -> str:
    """The action in full: a bare number means the option of the question before it."""
    if not act.text.isdigit() or act.number < 2:
        return act.text
    question = acts[act.number - 2].seen if act.number - 2 < len(acts) else ""
    return {number: plain(option) for number, option in _OPTION.findall(question)}.get(act.text, act.text)


def _unseen_rooms(start: str, acts: Sequence[Act], earlier: str) -> list[str]:
    """Rooms whose doors were seen but that were never entered, here or in an earlier plan; two of them."""
    texts = [start, *(act.seen for act in acts)]
    named = [room for text in texts for room in rooms_named(text)]
    entered = {done.thing for act in acts if (done := act.command) and done.verb in _TRAVEL and act.understood}
    entered |= set(rooms_named(start)[:1])
    planned = {step.thing for plan in earlier.splitlines() for step in advice.plan_steps(plan)}
    return [room for room in dict.fromkeys(named) if room not in entered and room not in planned][:2]
