"""Scores possible actions by conditional, ordered and ranked advice.

    orders = read_orders(["In tasks about boiling: do not wait until you have focused on the water."], here)
    orders.score("wait", ["wait", "open stove"])      # below 0: disliked, above 0: liked, 0: nothing said

A clause counts only if its condition holds. If the prompt does not decide that, the clause does not count.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rsso_dspy.explorer.advice import DISLIKED, LIKED, SHUNNED, weigh_topic
from rsso_dspy.explorer.clauses import Mention, ReadAdvice, ScopedClause
from rsso_dspy.explorer.commands import TRAVEL, Command, command, is_same_verb, make, normalize_words
from rsso_dspy.explorer.conditions import hold_conditions, is_done
from rsso_dspy.explorer.references import Situation, is_meant, list_named_rooms, list_named_things
from rsso_dspy.explorer.wordings import CLOSED, EMPTY_VESSEL, INGREDIENTS, normalize_wording

LATER = -12.0
"""Score of an action that must come after another one that is possible now."""
IN_TASK, IN_STATE, HINT = 9.0, 6.4, 1.0
"""Weights, among the player's drives, of actions called for in a sort of task, in a state or procedure, in general."""
_NEXT = 1.5
"""How much less an action weighs than the one named before it."""
_MOST = 4
"""Maximum actions that one clause calls for."""


@dataclass(frozen=True, slots=True)
class Order:
    """An action that a clause calls for now, with its weight among the player's drives."""

    action: str
    weight: float


@dataclass
class Orders:
    """The clauses that count here."""

    here: Situation
    calls: list[Order] = field(default_factory=list)
    clauses: list[ScopedClause] = field(default_factory=list)
    open: list[ScopedClause] = field(default_factory=list)
    """Clauses whose conditions speak of what the action handles: judged action by action."""
    later: list[tuple[Command, tuple[Mention, ...]]] = field(default_factory=list)
    """Actions that something called for comes before."""

    def score(self, action: str, others: Iterable[str] = ()) -> float:
        """How much the clauses speak for (or against) an action, among other possible ones."""
        done = command(action)
        if done is None:
            return 0.0
        called = any(each.action == action for each in self.calls)
        says = [LIKED if called else 0.0]
        says += [_judge_action(clause, done, action, self.here, others) for clause in self.clauses]
        says += [_judge_open(clause, done, self.here) for clause in self.open]
        if not called:
            says += [LATER for after, named in self.later if _is_advised(after, done, self.here, named)]
        return max(says) + min(says)


def read_orders(texts: Iterable[ReadAdvice], here: Situation) -> Orders:
    """The orders from those clauses of these texts that count here."""
    orders = Orders(here)
    for text in texts:
        for clause in text.clauses:
            _sort_clause(clause, orders)
        for chain in dict.fromkeys(clause.chain for clause in text.clauses if clause.chain):
            orders.calls += _follow_chain([clause for clause in text.clauses if clause.chain == chain], here)
    return orders


def _sort_clause(clause: ScopedClause, orders: Orders) -> None:
    here = orders.here
    if clause.only or _speaks_of_itself(clause):
        if hold_conditions([each for each in clause.conditions if each.kind == "task"], here) is True:
            orders.open.append(clause)
        return
    if hold_conditions(clause.conditions, here, clause.mentions) is not True:
        return
    after = _find_later(clause)
    if after is not None and not clause.positive and is_done(after, here, clause.mentions):
        return
    orders.clauses.append(clause)
    if clause.command and clause.positive and not clause.chain:
        calls = _rank_orders(list_actions(clause, here), weigh_clause(clause))
        orders.calls += calls
        if after is not None and calls:
            orders.later.append((after, clause.mentions))


def weigh_clause(clause: ScopedClause) -> float:
    """Weight of a clause's actions among the player's drives."""
    if clause.is_scoped:
        return IN_TASK
    return IN_STATE if clause.chain or clause.conditions else HINT


def _speaks_of_itself(clause: ScopedClause) -> bool:
    """ "Unless the task names it, ...": its condition is about what the clause itself handles."""
    about = [each for each in clause.conditions if each.kind != "task"]
    own = clause.command is not None and normalize_words(clause.command.thing)
    return bool(own) and not clause.mentions and any(each.text.split()[-1] in ("it", "them", "that") for each in about)


def _find_later(clause: ScopedClause) -> Command | None:
    """What the clause comes before."""
    said = next((each.text for each in clause.conditions if each.kind == "before"), "")
    return command(normalize_wording(said).removeprefix("you ").strip()) if said else None


def _judge_open(clause: ScopedClause, done: Command, here: Situation) -> float:
    """Judge an open clause, with the action's own thing as "it"."""
    if clause.command is None or not _is_advised(clause.command, done, here, clause.mentions):
        return 0.0
    named = (*clause.mentions, Mention(done.thing))
    about = [each for each in clause.conditions if each.kind not in ("task", "before")]
    counts = hold_conditions(about, here, named)
    if counts is None:
        return 0.0
    if not counts:
        return DISLIKED if clause.only and clause.positive else 0.0
    return LIKED if clause.positive else DISLIKED if clause.firm else SHUNNED


def _judge_action(clause: ScopedClause, done: Command, action: str, here: Situation, others: Iterable[str]) -> float:
    """Score of one action by a clause that counts."""
    if clause.repeats:
        return DISLIKED if action in here.scene.failed or action in here.scene.notes.failed else 0.0
    if clause.ranking:
        return _rank_action(clause, done, here, others)
    if clause.command is None:
        return weigh_topic(clause.text, clause.positive, done)
    if clause.chain or not _is_advised(clause.command, done, here, clause.mentions):
        return 0.0
    if not clause.positive:
        return DISLIKED if clause.firm else SHUNNED
    return LIKED if done.verb == "wait" or not is_done(done, here) else 0.0


def _rank_action(clause: ScopedClause, done: Command, here: Situation, others: Iterable[str]) -> float:
    """Score for a preferred action, and against the alternative while a preferred one is possible."""
    better, worse = clause.ranking or ("", "")
    if _is_named(better, done, here, clause):
        return LIKED
    if not _is_named(worse, done, here, clause):
        return 0.0
    possible = (found for other in others if (found := command(other)))
    return LATER if any(_is_named(better, each, here, clause) for each in possible) else 0.0


def _is_named(phrase: str, done: Command, here: Situation, clause: ScopedClause) -> bool:
    """The action is the one that the phrase describes, or handles what the phrase names."""
    found = command(phrase)
    if found is not None:
        return _is_advised(found, done, here, clause.mentions)
    return any(name and is_meant(phrase, name, here, clause.mentions) for name in (done.thing, done.place))


def _is_advised(advised: Command, done: Command, here: Situation, mentions: Sequence[Mention]) -> bool:
    return (
        is_same_verb(advised, done)
        and is_meant(advised.thing, done.thing, here, mentions)
        and is_meant(advised.place, done.place, here, mentions)
    )


def list_actions(clause: ScopedClause, here: Situation) -> list[str]:
    """The actions that a clause calls for and that are possible and not done yet."""
    step, scene = clause.command, here.scene
    if step is None or step.verb == "choose":
        return []
    if step.verb == "wait":
        return ["wait"]
    if step.verb in TRAVEL:
        rooms = list_named_rooms(step.thing, here, clause.mentions)
        gone = (scene.room, *scene.notes.searched)
        return [make("teleport", room).text for room in rooms if room not in gone][:_MOST]
    things = _prefer_exact(step.thing, list_named_things(step.thing, here, clause.mentions))
    places = _list_places(step, clause, here) if step.place else [""]
    found = [make(step.verb, thing, place) for thing in things for place in places if thing != place]
    failed = {*scene.failed, *scene.notes.failed}
    return [each.text for each in found if each.text not in failed and not _is_had(each, here)][:_MOST]


def _list_places(step: Command, clause: ScopedClause, here: Situation) -> list[str]:
    """What the place of a step means; "an empty container" is the one that the step was begun with."""
    if normalize_words(step.place) == EMPTY_VESSEL:
        begun = [
            done.place
            for done in here.done
            if done.verb == step.verb and is_meant(step.thing, done.thing, here, clause.mentions)
        ]
        if begun and begun[-1] in here.scene.things:
            return begun[-1:]
    return _prefer_exact(step.place, list_named_things(step.place, here, clause.mentions))


def _prefer_exact(phrase: str, names: list[str]) -> list[str]:
    return [normalize_words(phrase)] if normalize_words(phrase) in names else names


def _is_had(step: Command, here: Situation) -> bool:
    """Whether the effect of the action holds already."""
    thing = here.scene.things[step.thing]
    if step.verb == "open":
        return not thing.closed
    if step.verb == "activate":
        return not thing.off
    if step.verb == "pick up":
        return thing.held
    if step.verb == "move" and thing.inside == step.place:
        return True
    return step.verb in ("focus", "move", "pour", "mix", "read") and is_done(step, here)


def _follow_chain(steps: Sequence[ScopedClause], here: Situation) -> list[Order]:
    """The next step of a procedure. A step that was taken implies all earlier ones. If the thing of a step is not here,
    the player goes to it, or where the step before leads."""
    left = [each for each in steps if hold_conditions(each.conditions, here, each.mentions) is True]
    taken = [number for number, each in enumerate(left) if not _is_travel(each) and _is_step_done(each, here)]
    begin = taken[-1] + 1 if taken else 0
    for number in range(begin, len(left)):
        each = left[number]
        if _is_travel(each) and (not list_actions(each, here)):
            continue
        actions = list_actions(each, here)
        if not actions:
            actions = _list_ways_back(each, left[:number], here)
        return _rank_orders(actions, weigh_clause(each))
    return []


def _rank_orders(actions: Sequence[str], weight: float) -> list[Order]:
    """Orders for these actions, in which those named first weigh most."""
    return [Order(action, weight - _NEXT * rank) for rank, action in enumerate(actions)]


def _is_travel(clause: ScopedClause) -> bool:
    return clause.command is not None and clause.command.verb in TRAVEL


def _is_step_done(clause: ScopedClause, here: Situation) -> bool:
    assert clause.command
    if clause.command.verb == "wait":
        return here.scene.last_action == "wait" and not any(each.kind == "until" for each in clause.conditions)
    if {clause.command.thing, clause.command.place} & {CLOSED, INGREDIENTS} and list_actions(clause, here):
        return False
    return clause.command.thing == CLOSED or is_done(clause.command, here, clause.mentions)


def _list_ways_back(clause: ScopedClause, before: Sequence[ScopedClause], here: Situation) -> list[str]:
    """Where a step can be taken that cannot be taken here."""
    scene = here.scene
    assert clause.command
    for part in (clause.command.thing, clause.command.place):
        if part and not list_named_things(part, here, clause.mentions):
            rooms = [room for name, room in scene.notes.seen.items() if is_meant(part, name, here, clause.mentions)]
            if rooms and rooms[-1] != scene.room:
                return [make("teleport", rooms[-1]).text]
    travel = next((each for each in reversed(before) if _is_travel(each)), None)
    rooms = list_named_rooms(travel.command.thing, here, travel.mentions) if travel and travel.command else []
    return [make("teleport", room).text for room in rooms if room != scene.room][:1]
