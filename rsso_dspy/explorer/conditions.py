"""Judges whether a condition of advice holds, by the task and the prompt: True, False, or None if unknown."""

import re
from collections.abc import Callable, Sequence

from rsso_dspy.explorer.clauses import Condition, Mention
from rsso_dspy.explorer.commands import Command, command, extract_content_words, is_same_verb, normalize_words
from rsso_dspy.explorer.references import Situation, is_meant, list_named_things
from rsso_dspy.explorer.topics import is_task_about, judge_topic
from rsso_dspy.explorer.wordings import ANYTHING, INGREDIENTS, is_placeholder, normalize_wording

_WHILE = ("if", "in case", "when", "whenever", "while", "as long as", "once", "as soon as", "after")
_ASKED = re.compile(
    r"^(?:(?:the |your |this )?(?:task|goal) (?:is about|is|asks|wants|requires|says|tells|mentions|names|involves)"
    r"|you (?:are|were) (?:asked|told|supposed|required)|asked|told)\b(?: you| for| about| with)*(?: to)? ?(.*)$"
)
_NEGATION = re.compile(r"\b(?:not|n't|no|never|nothing)\b ?")
_CONTRACTED = re.compile(r"\b(do|does|did|is|are|has|have|was|were|ca)n[o']?t\b")
_PARTICIPLES = (
    ("focused", "focus"), ("mixed", "mix"), ("read", "read"), ("picked up", "pick up"), ("taken", "pick up"),
    ("opened", "open"), ("moved", "move"), ("put", "put"), ("placed", "place"), ("poured", "pour"), ("used", "use"),
    ("activated", "activate"), ("turned on", "turn on"), ("turned off", "turn off"), ("waited", "wait"),
    ("teleported", "teleport"), ("gone", "go"), ("visited", "teleport to"), ("searched", "teleport to"),
    ("been in", "teleport to"), ("been to", "teleport to"), ("looked in", "look in"), ("looked at", "look at"),
    ("closed", "close"), ("measured", "use thermometer on"), ("entered", "teleport to"), ("seen", "see"),
)  # fmt: skip
_FAILS = re.compile(
    r"\b(?:fails|(?:had|has|brought) no effect|did nothing|does nothing|changed nothing|(?:was|is) not understood)$"
)
_LIMIT = re.compile(r"\b(above|over|more than|higher than|below|under|less than|lower than) (-?\d+(?:\.\d+)?)")


def hold_conditions(conditions: Sequence[Condition], here: Situation, mentions: Sequence[Mention] = ()) -> bool | None:
    """Whether all conditions hold; None when one is unknown and none is known to fail."""
    verdicts = [judge_condition(each, here, mentions) for each in conditions]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def judge_condition(condition: Condition, here: Situation, mentions: Sequence[Mention] = ()) -> bool | None:
    """Whether this condition lets the clause count here."""
    if condition.kind == "task":
        verdict: bool | None = is_task_about(condition.text, here.goals)
    elif condition.kind == "before":  # a ranking of two actions: it counts until the later one is taken
        return True
    else:
        verdict = judge_statement(condition.text, here, mentions)
        if verdict is None and condition.kind in _WHILE:
            verdict = judge_topic(condition.text, here.goals)
        if verdict is not None and condition.kind in ("unless", "until"):
            verdict = not verdict
    return None if verdict is None else verdict != condition.negated


def judge_statement(text: str, here: Situation, mentions: Sequence[Mention] = ()) -> bool | None:
    """A statement about the task, the scene or what was done; None when the prompt does not show it."""
    said = _CONTRACTED.sub(r"\1 not", normalize_wording(text.lower()).strip(" .,"))
    said = _FAILS.sub("failed", said)
    verdict = _judge_plain(said, here, mentions)
    if verdict is None and (match := _NEGATION.search(said)):
        inner = _judge_plain((said[: match.start()] + said[match.end() :]).replace("  ", " "), here, mentions)
        return None if inner is None else not inner
    if verdict is None and " or " in said:
        return _combine([judge_statement(part, here, mentions) for part in said.split(" or ")], True)
    if verdict is None and " and " in said:
        return _combine([judge_statement(part, here, mentions) for part in said.split(" and ")], False)
    return verdict


def _combine(verdicts: Sequence[bool | None], enough: bool) -> bool | None:
    """A single verdict equal to `enough` decides; otherwise all must be known."""
    if enough in verdicts:
        return enough
    return None if None in verdicts else not enough


def _judge_plain(said: str, here: Situation, mentions: Sequence[Mention]) -> bool | None:
    """A statement without a negation."""
    if _NEGATION.search(said):
        return None
    if match := _ASKED.match(said):
        return _judge_asked(match.group(1), here, mentions)
    if (done := _find_deed(said)) is not None:
        return is_done(done, here, mentions)
    for pattern, judge in _STATEMENTS:
        if match := pattern.match(said):
            return judge(here, [normalize_words(part or "") for part in match.groups()], mentions)
    return None


def _judge_asked(text: str, here: Situation, mentions: Sequence[Mention]) -> bool | None:
    words = normalize_words(text)
    if words in ("it", "this", "that", "them") or not words:
        return _is_asked_for(mentions[-1].phrase, here) if mentions else None
    return is_task_about(words, here.goals)


def _is_asked_for(name: str, here: Situation) -> bool:
    """Whether the task names the thing, or a kind that it belongs to."""
    goals = here.goals
    return (bool(words := extract_content_words(name)) and words <= goals.vocabulary) or any(
        target.is_matched_by(normalize_words(name)) for target in goals.targets
    )


def _find_deed(said: str) -> Command | None:
    """The command of "you have focused on X", "focusing on X", "you open X"."""
    bare = re.sub(r"^(?:you |have |has |had |already |it |they |was |were |been (?!in|to))+", "", said)
    for participle, verb in _PARTICIPLES:
        if re.match(rf"{participle}\b", bare):
            bare = bare.replace(participle, verb, 1)
            break
    found = command(bare)
    return found if found is not None and found.verb != "choose" else None


def is_done(step: Command, here: Situation, mentions: Sequence[Mention] = ()) -> bool:
    """Whether such an action had an effect in this trial."""
    return any(
        is_same_verb(step, done)
        and is_meant(step.thing, done.thing, here, mentions, past=True)
        and is_meant(step.place, done.place, here, mentions, past=True)
        for done in here.done
    )


Judge = Callable[[Situation, list[str], Sequence[Mention]], bool | None]


def _judge_sight(here: Situation, parts: list[str], mentions: Sequence[Mention]) -> bool | None:
    (phrase,) = parts
    if phrase == ANYTHING:
        return None
    if phrase == INGREDIENTS:
        return bool(list_named_things(phrase, here, mentions)) if here.goals.product else None
    return bool(list_named_things(phrase, here, mentions)) if _is_known(phrase, mentions) else None


def _judge_held(here: Situation, parts: list[str], mentions: Sequence[Mention]) -> bool | None:
    (phrase,) = parts
    if not _is_known(phrase, mentions):
        return None
    return any(is_meant(phrase, name, here, mentions) for name in here.scene.held)


def _judge_room(here: Situation, parts: list[str], mentions: Sequence[Mention]) -> bool | None:
    phrase = parts[0] or "outside"
    return is_meant(phrase, here.scene.room, here, mentions) if here.scene.room else None


def _judge_property(here: Situation, parts: list[str], mentions: Sequence[Mention]) -> bool | None:
    phrase, state = parts
    things = [here.scene.things[name] for name in list_named_things(phrase, here, mentions)]
    if state == "broken":
        tried = [
            text
            for text in (*here.scene.failed, *here.scene.notes.failed)
            if text.startswith(("activate", "deactivate"))
        ]
        return any(is_meant(phrase, text.split(" ", 1)[1], here, mentions) for text in tried)
    if not things:
        return None
    return any(
        {"closed": each.closed, "open": "is open" in each.line and not each.closed, "empty": each.empty}.get(
            state, each.off == (state in ("off", "turned off", "deactivated", "inactive"))
        )
        for each in things
    )


def _judge_place(here: Situation, parts: list[str], mentions: Sequence[Mention]) -> bool | None:
    phrase, place = parts
    things = [here.scene.things[name] for name in list_named_things(phrase, here, mentions)]
    if place in ("inventory", "your inventory"):
        return any(each.held for each in things)
    if is_meant(place, here.scene.room, here, mentions) and here.scene.room:
        return bool(things)
    return any(is_meant(place, each.inside, here, mentions) for each in things if each.inside) if things else None


def _judge_together(here: Situation, _parts: list[str], _mentions: Sequence[Mention]) -> bool | None:
    things = [here.scene.things[name] for name in list_named_things(INGREDIENTS, here)]
    inside = {each.inside for each in things}
    return len(things) > 1 and len(inside) == 1 and "" not in inside


def _judge_reading(here: Situation, parts: list[str], _mentions: Sequence[Mention]) -> bool | None:
    reading = here.scene.notes.facts.get("reading")
    match = _LIMIT.search(" ".join(parts))
    if reading is None or match is None:
        return None
    above = match.group(1) in ("above", "over", "more than", "higher than")
    return (float(reading) > float(match.group(2))) == above


def _is_known(phrase: str, mentions: Sequence[Mention]) -> bool:
    """Whether a phrase names something at all."""
    return bool(phrase) and (not is_placeholder(phrase) or bool(mentions))


_IN_SIGHT = r"here|visible|present|in sight|in view|in the room|in this room|available|nearby"
_STATES = r"closed|open|off|on|active|activated|inactive|deactivated|turned off|turned on|broken|empty"
_BOUNDS = r"above|over|more than|higher than|below|under|less than|lower than"
_FORMS: tuple[tuple[str, Judge], ...] = (
    (
        r"(?:the )?(?:game|world|environment)\b.*\b(?:asks|question|options).*|.*\bambiguous\b.*|.*numbered options",
        lambda here, _parts, _mentions: bool(here.scene.options),
    ),
    (
        r"(?:the |your |that |an |any )?(?:last |previous )?actions? failed",
        lambda here, _parts, _mentions: here.scene.last_action in here.scene.failed if here.scene.last_action else None,
    ),
    (
        r"(?:all|every|each)(?: of the| the)? rooms? .*(?:searched|visited|seen|entered)",
        lambda here, _parts, _mentions: {*here.scene.doors, *here.scene.notes.doors} <= {*here.scene.notes.searched},
    ),
    (r"named-ingredients (?:are|is|lie) (?:all )?(?:together|in (?:one|the same|a) .+)", _judge_together),
    (rf"(.*\b(?:{_BOUNDS}) -?\d.*)", _judge_reading),
    (r"you (?:have reached|reach|have entered|enter|arrive in|arrive at) (.+)", _judge_room),
    (r"you(?:'re| are) (?:(?:in|at|inside|inside of) (.+)|outside)", _judge_room),
    (r"in (?!.*tasks?)(.+)", _judge_room),
    (r"you (?:have|have got|hold|are holding|carry|are carrying) (.+?)(?: in (?:your |the )?inventory)?", _judge_held),
    (r"there (?:is|are) (.+?)(?: here| in (?:the room|sight|view))?", _judge_sight),
    (r"(?:you )?(?:can |have )?(?:see|seen|find|found|notice|spot|come across) (.+?)(?: here)?", _judge_sight),
    (rf"(.+?) (?:is|are) (?:{_IN_SIGHT})", _judge_sight),
    (rf"(.+?) (?:is|are) ({_STATES})", _judge_property),
    (r"(.+?) (?:is|are) (?:held|carried)", _judge_held),
    (r"(.+?) (?:is|are|has been put|has been placed|lies|stands) (?:in|on|inside|into) (.+)", _judge_place),
)
_STATEMENTS = tuple((re.compile(rf"^(?:{pattern})$"), judge) for pattern, judge in _FORMS)
