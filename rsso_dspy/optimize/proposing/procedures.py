"""Derives a procedure from solved trials of several variants of a task type: what they did in the same order, without
particulars.

    derive_procedures(trials, grammar)
    # [Procedure("", "Go to the cellar, then open ..."), Procedure("brass key", "Open the brass ...")]

Trials are aligned action by action. An action is kept when at least two variants, and more than half, agree on it. A
thing that the task names is replaced by its role, a thing from a text that was read by `Naming.listed`, an empty vessel
by "an empty container"; numbers of copies are left out. Only an answer (`Grammar.commits`) may differ: then the chosen
things are listed, first those that were preferred to others in sight.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rsso_dspy.environments.grammar import Command, Grammar, extract_content_words, normalize_words
from rsso_dspy.environments.naming import Naming
from rsso_dspy.optimize.action_advice import find_destination
from rsso_dspy.optimize.proposing.names import describe_role, is_named_by, list_names
from rsso_dspy.records import Trajectory

ENOUGH = 2
"""How many variants must agree."""
MOST_STEPS = 20
MOST_ALTERNATIVES = 12
"""Maximum steps of a procedure, and things that an answer is chosen from."""

_CONTENT = re.compile(r"^(.+?) containing (.+?)(?: in .+)?$")
_WHERE = re.compile(r" (?:in|on|inside) .+$")
_WHEREFROM = re.compile(r" in [\w -]+?(?= (?:to|into|in|on) )")
_COPY = re.compile(r" (?:\d+|[a-z])$")
_TAKING = frozenset({"pick up", "take", "get", "grab"})
_EMPTY = "an empty container"
_SAME_CONTAINER = "that container"
_WIDEST = 4
"""Maximum actions of a repeated round that is collapsed into one."""


@dataclass(frozen=True)
class Step:
    """One action with its particulars generalized."""

    verb: str
    thing: str = ""
    place: str = ""
    join: str = ""
    head: str = ""
    literal: str = ""
    """The thing that an answer named."""
    own_thing: str = ""
    own_place: str = ""
    """The names themselves, used where all variants agree on them."""
    rivals: tuple[str, ...] = ()
    """Other things in sight when the answer was given."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.verb, self.thing, self.place

    @property
    def text(self) -> str:
        """The action as an order."""
        tail = f" {self.join} {_add_article(self.place)}" if self.place else ""
        return f"{self.head or self.verb} {_add_article(self.thing)}{tail}".strip()


@dataclass(frozen=True)
class Procedure:
    """What to do, in order."""

    topic: str
    """The thing that its tasks name; empty if it is for all tasks of the type."""
    text: str
    variants: int
    """How many variants it was derived from."""


def derive_procedures(trials: Sequence[Trajectory], grammar: Grammar) -> list[Procedure]:
    """The procedures that these trials, one per variant of a type, have in common: one for each group that names the
    same goal and shares more steps than all trials do, and one for all. Empty when fewer than two variants agree on
    anything."""
    paths = [list_steps(trial, grammar) for trial in trials]
    whole = _align_paths(paths)
    groups: dict[str, list[list[Step]]] = {}
    for trial, path in zip(trials, paths, strict=True):
        goal = next((step.literal for step in reversed(path) if step.literal), "")
        if goal and is_named_by(trial.task, goal):
            groups.setdefault(goal, []).append(path)
    found = []
    for goal, own in groups.items():
        steps = _align_paths(own)
        if len(groups) > 1 and len(own) >= ENOUGH and len(steps) > len(whole):
            found.append(Procedure(goal, _write_steps(steps), len(own)))
    if len(whole) > 1:
        found.append(Procedure("", _write_steps(whole), len(paths)))
    return found


def list_steps(trial: Trajectory, grammar: Grammar) -> list[Step]:
    """The actions of a trial that mattered, without looking around, opening the way or repeated rounds."""
    steps: list[Step] = []
    room, going, vessel, read = "", "", "", ""
    for number, step in enumerate(trial.steps):
        before = trial.states[number]
        if not step.understood or step.action.isdigit():
            continue
        if place := find_destination(step.action, grammar):
            going = normalize_words(place)
            continue
        done = grammar.parse_command(_WHEREFROM.sub("", step.action))
        if done is None or _leads_on(trial, number, grammar):
            continue
        if going and going != room:
            travel = grammar.make_command(_find_travel_verb(grammar))
            named = "the place named in the task" if is_named_by(trial.task, going) else going
            steps.append(Step(travel.verb, named, head=travel.head, own_thing=going))
            room, going = going, ""
        sight = f"{before.look} {before.inventory} {before.observation}"
        made, vessel = _generalize(done, trial.task, read, sight, vessel, grammar.naming)
        if re.fullmatch(grammar.commits, step.action):
            literal = re.sub(f"^(?:{grammar.naming.variety})", "", _strip(done.thing))
            rivals = tuple(name for name in list_names(before, grammar.naming) if name != literal)
            made = replace(made, literal=literal, rivals=rivals)
            if made.thing == normalize_words(_strip(done.thing)):
                made = replace(made, thing=literal)
        if done.verb == "read":
            read = step.state.observation
        steps.append(made)
    return _collapse_rounds(steps)


def _find_travel_verb(grammar: Grammar) -> str:
    return next(verb.name for verb in grammar.verbs if re.fullmatch(grammar.travel, f"{verb.head or verb.name} x"))


def _leads_on(trial: Trajectory, number: int, grammar: Grammar) -> bool:
    """Whether the action only opens the way to where the next one leads."""
    if number + 1 >= len(trial.steps) or not re.fullmatch(grammar.search, trial.steps[number].action):
        return False
    place = find_destination(trial.steps[number + 1].action, grammar)
    return bool(place) and place in trial.steps[number].action


def _generalize(done: Command, task: str, read: str, sight: str, vessel: str, naming: Naming) -> tuple[Step, str]:
    """The action without particulars, and the vessel that things were last put into."""
    place = _get_outer(done.place)
    said_place = _generalize_name(place, task, read, naming) if place else ""
    if place and done.join and _is_empty(done.place, sight, naming):
        said_place, vessel = _EMPTY, place
    elif place and place == vessel:
        said_place = _EMPTY
    thing = _strip(done.thing)
    outer = _get_outer(done.thing)
    if vessel and not done.place and done.verb not in _TAKING and outer == vessel:
        said = _SAME_CONTAINER
    else:
        said = _generalize_name(thing, task, read, naming)
    own = _COPY.sub("", normalize_words(thing)), _COPY.sub("", place)
    return Step(done.verb, said, said_place, done.join, done.head, own_thing=own[0], own_place=own[1]), vessel


def _generalize_name(name: str, task: str, read: str, naming: Naming) -> str:
    if not name:
        return ""
    if is_named_by(task, name):
        return describe_role(task, name, naming)
    if read and extract_content_words(name) <= extract_content_words(read) and len(name.split()) > 1:
        return naming.listed
    return _COPY.sub("", name)


def _strip(name: str) -> str:
    """A name without the place of the thing; for a vessel that holds something, what it holds."""
    if match := _CONTENT.match(name):
        inner = match[2].split(" and ")[0]
        name = match[1] if inner == "nothing" else inner
    return normalize_words(_WHERE.sub("", name))


def _get_outer(name: str) -> str:
    """A vessel without what it holds."""
    match = _CONTENT.match(name)
    return normalize_words(_WHERE.sub("", match[1] if match else name))


def _is_empty(name: str, sight: str, naming: Naming) -> bool:
    if naming.empty in name:
        return True
    outer, empty = re.escape(_get_outer(name)), re.escape(naming.empty)
    return re.search(rf"\b{outer} (?:\({empty}\)|is {empty}\b)", sight.lower()) is not None


def _collapse_rounds(steps: Sequence[Step]) -> list[Step]:
    """The steps, each repeated round only once."""
    kept: list[Step] = []
    for step in steps:
        kept.append(step)
        for wide in range(1, _WIDEST + 1):
            if len(kept) >= 2 * wide and [s.key for s in kept[-wide:]] == [s.key for s in kept[-2 * wide : -wide]]:
                del kept[-wide:]
                break
    return kept


def _align_paths(paths: Sequence[Sequence[Step]]) -> list[Step]:
    """The steps of the most typical path that enough other paths share; an answer with its alternatives."""
    if len(paths) < ENOUGH:
        return []
    matched = {at: [_match_paths(path, other) for other in paths] for at, path in enumerate(paths)}
    typical = max(matched, key=lambda at: (sum(len(each) for each in matched[at]), -at))
    kept = []
    for number, step in enumerate(paths[typical]):
        same = [other[each[number]] for other, each in zip(paths, matched[typical], strict=True) if number in each]
        exact = [each for each in same if each.key == step.key]
        enough = max(ENOUGH, len(paths) // 2 + 1)
        if step.literal and len(same) > len(exact) and not step.thing.endswith("in the task"):
            if len(same) >= enough:
                kept.append(replace(step, thing=_list_alternatives(same)))
        elif len(exact) >= enough:
            kept.append(_name_constants(step, exact))
    return _collapse_rounds(kept)[:MOST_STEPS]


def _name_constants(step: Step, same: Sequence[Step]) -> Step:
    """The step with names in place of roles where all variants have the same name."""
    things, places = {each.own_thing for each in same}, {each.own_place for each in same}
    if step.thing.endswith("named in the task") and len(things) == 1 and not step.literal:
        step = replace(step, thing=step.own_thing)
    if step.place.endswith("named in the task") and len(places) == 1:
        step = replace(step, place=step.own_place)
    return step


def _match_paths(ours: Sequence[Step], theirs: Sequence[Step]) -> dict[int, int]:
    """Index of our step to that of the same step in the other path, in order: the longest such alignment."""
    best = [[0] * (len(theirs) + 1) for _ in range(len(ours) + 1)]
    for i in range(len(ours) - 1, -1, -1):
        for j in range(len(theirs) - 1, -1, -1):
            taken = best[i + 1][j + 1] + _rate_match(ours[i], theirs[j])
            best[i][j] = max(taken if _rate_match(ours[i], theirs[j]) else 0, best[i + 1][j], best[i][j + 1])
    found, i, j = {}, 0, 0
    while i < len(ours) and j < len(theirs):
        rate = _rate_match(ours[i], theirs[j])
        if rate and best[i][j] == best[i + 1][j + 1] + rate:
            found[i] = j
            i, j = i + 1, j + 1
        elif best[i + 1][j] >= best[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _rate_match(one: Step, other: Step) -> int:
    """2 for the same action, 1 for two answers that name different things, 0 for anything else."""
    if one.key == other.key:
        return 2
    return int(bool(one.literal and other.literal) and one.verb == other.verb)


def _list_alternatives(answers: Sequence[Step]) -> str:
    """The chosen things as a list: a thing stands before those that were in sight when it was chosen."""
    votes = Counter(step.literal for step in answers)
    beaten = {
        (step.literal, rival)
        for step in answers
        for rival in votes
        if rival != step.literal and any(rival in name for name in step.rivals)
    }
    ordered: list[str] = []
    left = list(dict.fromkeys(step.literal for step in answers))
    while left:
        free = [each for each in left if not any((other, each) in beaten for other in left)] or left
        best = max(free, key=lambda each: (votes[each], -left.index(each)))
        ordered.append(best)
        left.remove(best)
    names = [_add_article(name, "a") for name in ordered[:MOST_ALTERNATIVES]]
    return " or ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _write_steps(steps: Sequence[Step]) -> str:
    text = ", then ".join(step.text for step in steps)
    return f"{text[:1].upper()}{text[1:]}."


def _add_article(name: str, article: str = "the") -> str:
    if not name or re.match(r"(?:the|an?|every|that|outside)\b", name):
        return name
    return f"{'an' if article == 'a' and name[0] in 'aeiou' else article} {name}"
