"""Other wordings of an unknown action, for the interface `complete`.

    list(wordings("**Next action:** focus on substance called tin.", seen))
    # ["focus on substance called tin", "focus on tin"]

The parser wants short names and no punctuation; models write names as observed. An unknown input costs no time and
changes nothing, so wordings are tried one by one until one is known. None of them may change the meaning: words in
parentheses are dropped only if they carry no information or agree with what is visible.
"""

import re
from collections.abc import Iterator
from itertools import combinations

from rsso_dspy.environments.scienceworld.actions import VERBS
from rsso_dspy.environments.scienceworld.grammar import GRAMMAR

MOST = 32
"""Maximum number of wordings, and as many again of the action without what is said around it."""

MOST_PARENTHESES = 4
"""Maximum pairs of parentheses considered, to limit the number of wordings."""

_LABEL = re.compile(
    r"^[*_`\"']*(?:(?:my|the|your)\s+)?(?:next\s+)?(?:action|command|answer|move|step)\s*\d*[*_`\"']*\s*[:=]\s*"
    r"|^[^\x00-\x7f]+\s*[:：]\s*"  # in another script: the game has English names only
)
_MARK = re.compile(r"^(?:[-*•>+]|\(?(?:\d{1,2}|[a-z])[.)])\s+")
_EDGES = " \t*_`\"'“”‘’.,;:!?。，；！"
_INSIDE = re.compile(r"\s*\(([^()]*)\)")
_SUBSTANCE = re.compile(r"\b(?:(?:an?|the|some)\s+)?(?:unknown\s+)?substance\s+(?:called|named)\s+")
_TITLE = re.compile(
    r",?\s+(?:titled|called|named|entitled)\s+(.+?)(?=\s+(?:in|to|on|from)\s+(?:the\s+)?(?:inventory|[a-z]+)$|$)"
)
_STATE = re.compile(r",\s*(?:which|that|currently|now|in the|with)\b.*?(?=\s+(?:to|into|onto|on|in)\s+(?:the|an?)\s|$)")
_STAGE = re.compile(r"(\S+) in the [a-z]+ stage(?: with an? [a-z]+ height)?\b")
_SENTENCES = re.compile(r"(?<=[a-z0-9)\"'*`])[.!;]\s+")
_DESCRIBES = re.compile(
    r"(?:containing|contains|in|on|at|from|inside|with|that is|which is|called|titled|named|reading)\b"
)
_QUOTED = re.compile(r"[\"'“”‘’`*_]+(?=\s|$)|(?<=\s)[\"'“”‘’`*_]+")
_SPELLINGS = (
    (re.compile(r"\b(?:into|inside of|inside)\b"), "in"),
    (re.compile(r"\b(?:onto|on top of)\b"), "on"),
    (re.compile(r"\bfrom (?:the )?inventory\b"), "in inventory"),
    (re.compile(r"^switch\b"), "turn"),
    (re.compile(r"^enter(?: the)?\b"), "go to"),
    (re.compile(r"^inspect\b"), "look at"),
    (re.compile(r"^look around (?:the )?(?:room|area|location)$"), "look around"),
    (re.compile(r"^place\b"), "put"),
)
_WRAPPED = (
    re.compile(r"\\(?:boxed|text|textbf|mathbf)\{([^{}]*)\}"),
    re.compile(r"<\|\w+\|>()|</?(?:[a-z]|strong|em|code|kbd|mark|span|div|answer|action|command|br)\s*/?>()"),
    re.compile(
        r"^<[a-z_]+>\s*([^<>]+?)\s*</[a-z_]+>$|^<([^<>]+)>$|^\[([^\[\]]+)\]$|^«([^«»]+)»$|^‹([^‹›]+)›$|^「([^「」]+)」$|^\{([^{}]+)\}$|^\(([^()]+)\)$"
    ),
)
_SIGNS = re.compile(r"^[^\w(<\[«‹「{]+|[^\w)>\]»›」}]+$")
_SPEAKER = re.compile(
    r"^(?:(?:so|my|the|your)\s+)*(?:(?:final|best|chosen|next|current)\s+)*"
    r"(?:action|command|answer|move|step|agent|assistant|player|output|response|decision|choice)"
    r"\s*(?:[:=]|\bis(?: to)?\b)\s*"
)
_INTENT = re.compile(
    r"^(?:(?:so|ok|okay|alright|please|now|first|firstly|next|then|finally|therefore|thus)\b,?\s+"
    r"|(?:i|we|you|the (?:agent|player))(?:\s+(?:will|shall|should|must|need to|have to|want to|would like to"
    r"|am going to|are going to|choose to|decide to)|['’](?:ll|m going to|re going to|d like to))?\s+"
    r"|let(?:['’]s| us| me)\s+)"
)
_CLAUSE = re.compile(
    r"^(?P<lead>(?:since|because|as|given|now that)\b[^,]+,\s+|[^,]+,\s+(?=(?:so|therefore|thus)\b))(?=\S)"
)
_CLOSING = re.compile(r",?\s+(?:(?:right )?now|first|next|please)$")
_PURPOSES = (
    "see|check|find|learn|verify|observe|determine|make sure|get|reach|look|start|begin|continue|explore|search"
    "|identify|collect|obtain|examine|avoid|let|allow|gather|complete|access|prepare"
)
_REASON = re.compile(
    r",?\s+(?P<tail>(?:because|since|so that|in order to|so (?:i|we|it)\b|as (?:i|we|it|this)\b"
    rf"|to (?:{_PURPOSES})\b).*)$"
)
_REMARK = re.compile(
    r"(?:\s+[-–—]+|:|\s*[—])\s+(?P<tail>(?:because|since|so that|in order to|so (?:i|we|it)\b|as (?:i|we|it|this)\b"
    rf"|to (?:{_PURPOSES})\b|i\b|we\b"
    r"|(?:this|that|it)(?:['’]ll|\s+(?:is|will|would|should|may|might|can|could|must|helps|gets|gives|shows|lets|brings|makes"
    r"|moves|takes|allows|tells))\b).*)$"
)
_COMMENT = re.compile(r"\s+#\s+(?P<tail>[a-z].*)$")
_TAKES_BACK = re.compile(r"\b(?:then|instead|actually|rather|but|or|ones?)\b|(?:^|\W\s+)(?:no|not|wait)\b|;")
_JOINED = re.compile(r"^(look|pick|put|focus|go|teleport|turn|walk)[-_]?(at|in|into|up|down|on|off|to|around)\b")
_COLON = re.compile(r"^([a-z]+(?: (?:at|in|up|down|on|to))?):\s+")
_PLACEHOLDER = re.compile(r"\b(?:obj|location|container)\s+(?=\w)")
_CALL = re.compile(r"^([a-z]+(?:[ _][a-z]+)?)\((.+)\)$")
_ARGUMENT = re.compile(r"(?:^|,)\s*(?:\w+\s*[=:]\s*)?([\"']?)(.+?)\1\s*(?=,|$)")
_PARTED = re.compile(r"^(pick|put|turn) (.+) (up|down|on|off)$")
_BETWEEN = {"use": " on ", "pour": " in ", "dunk": " in "}
"""Verb to the word between its two things, where that is not "to"."""
_AIMLESS = re.compile(r"(?:wait1?|look around|look|inventory|task)$")


def strip(action: str) -> str:
    """Strip what surrounds an action: a label, a list mark, quotes, bold, a final period."""
    before = None
    while before != action:
        before = action
        action = _LABEL.sub("", _MARK.sub("", action.strip(_EDGES + "-•>+" if not action[:1].isdigit() else _EDGES)))
    return action


def wordings(action: str, seen: str) -> Iterator[str]:
    """Yield other wordings of an action, the nearest first, without duplicates, at most `MOST`.

    `seen` is the text of surroundings and inventory, which dropped parts must agree with.
    """
    told = {action}
    shown = " ".join(seen.lower().split())
    sources = (_all(action, shown), _without_talk(action, shown), _all(_COLON.sub(r"\1 ", action), shown))
    for most, source in zip((MOST, 2 * MOST, 2 * MOST), sources, strict=True):
        for wording in source:
            wording = " ".join(wording.split())
            if wording and wording not in told:
                told.add(wording)
                yield wording
            if len(told) > most:
                break


def _without_talk(action: str, seen: str) -> Iterator[str]:
    """Yield wordings of the action without what is said around it: intent, label, wrapper, reason."""
    sentences = _SENTENCES.split(action)
    whole = action if len(sentences) == 1 or _first_sentence(action) == action else ""
    for text in filter(None, (whole, *(sentences if not whole else ()))):
        found = list(_strip_talk(text, seen))
        for said in found:
            yield from _all(said, seen)
        if found and _acts(found[-1]):
            return


def _strip_talk(text: str, seen: str) -> Iterator[str]:
    """Yield the text with one thing less around it each time."""
    before = None
    while before != text:
        before = text
        for peel in (_unwrap, _drop_lead, _drop_tail, _join_verb):
            less = strip(peel(text, seen))
            if less and less != text:
                text = less
                yield text


def _unwrap(text: str, _seen: str) -> str:
    before = None
    while before != text:
        before = text
        for pattern in _WRAPPED:
            text = pattern.sub(lambda match: next(filter(None, match.groups()), " "), text.strip("$ ")).strip()
    return _SIGNS.sub("", text)


def _drop_lead(text: str, _seen: str) -> str:
    """Drop a label, an intent, and a reason that stands first, unless that is an action or takes it back."""
    clause = _CLAUSE.match(text)
    if clause and not _TAKES_BACK.search(clause["lead"]) and not _acts(_INTENT.sub("", clause["lead"])):
        text = text[clause.end() :]
    return _INTENT.sub("", _SPEAKER.sub("", text))


def _drop_tail(text: str, seen: str) -> str:
    """Drop a reason or a comment, unless it takes the action back, adds another, or may belong to a name."""
    for pattern in (_REMARK, _REASON, _COMMENT):
        if (match := pattern.search(text)) and not _TAKES_BACK.search(match["tail"]):
            named = pattern is _COMMENT and set(re.findall(r"[a-z0-9]+", match["tail"])) & set(
                re.findall(r"[a-z0-9]+", seen)
            )
            return text if named else text[: match.start()]
    return _CLOSING.sub("", text)


def _join_verb(text: str, _seen: str) -> str:
    """Put the words of a verb and its things side by side with spaces: `look-at`, `look_around()`, `pick cup up`,
    `use("thermometer", "metal_pot")`, `open OBJ door`."""
    if call := _CALL.match(text):
        verb, things = call.group(1), [match.group(2) for match in _ARGUMENT.finditer(call.group(2))]
        text = f"{verb} {_BETWEEN.get(verb, ' to ').join(things)}"
    text = re.sub(r"\(\s*\)$", "", _JOINED.sub(r"\1 \2", text)).replace("_", " ")
    text = _PLACEHOLDER.sub("", text)
    return re.sub(r"\bmy (?=inventory\b)", "", _PARTED.sub(r"\1 \3 \2", text))


def _all(action: str, seen: str) -> Iterator[str]:
    bare = _QUOTED.sub("", strip(action))
    yield bare
    for text in dict.fromkeys((bare, strip(_first_sentence(bare)))):
        for said in _without_parentheses(text, seen):
            yield said
            yield from _shorter(said, seen)


def _without_parentheses(text: str, seen: str) -> Iterator[str]:
    """Yield the text without parentheses: first with all their words, then with fewer and fewer."""
    found = list(_INSIDE.finditer(text))[:MOST_PARENTHESES]
    free = [number for number, match in enumerate(found) if _may_go(match, text, seen)]
    for count in range(len(free) + 1):
        for gone in combinations(free, count):
            said, end = "", 0
            for number, match in enumerate(found):
                kept = " " if number in gone else f" {match.group(1)} "
                said, end = said + text[end : match.start()] + kept, match.end()
            yield " ".join((said + text[end:]).split())


def _shorter(said: str, seen: str) -> Iterator[str]:
    """Yield wordings with short names (no "substance called", state or title), then other spellings and parsed
    prose."""
    short = _SUBSTANCE.sub("", said)
    yield short
    short = _without_stage(short, seen)
    yield short
    yield strip(_STATE.sub("", short))
    plain = strip(_STATE.sub("", strip(_without_title(short, seen))))
    yield plain
    for pattern, spelling in _SPELLINGS:
        plain = pattern.sub(spelling, plain)
    yield plain
    understood = GRAMMAR.parse_command(plain)
    if understood is not None and understood.verb != "choose":
        yield understood.text


def _without_stage(text: str, seen: str) -> str:
    """Drop the stage and height of a living thing where it is seen with them."""
    return _STAGE.sub(lambda match: match.group(1) if match.group() in seen else match.group(), text)


def _first_sentence(text: str) -> str:
    """Return the first sentence that is an action, unless a later one takes it back."""
    first, *more = _SENTENCES.split(text)
    if any(re.match(r"(?:no|wait(?! *$)|actually|instead|rather|or)\b", sentence) for sentence in more):
        return text
    acts = [sentence for sentence in (first, *more) if _acts(sentence)]
    return acts[0] if acts else first


def _acts(sentence: str) -> bool:
    bare = strip(sentence)
    return GRAMMAR.parse_command(bare) is not None or _AIMLESS.match(bare) is not None or bare.split(" ")[0] in VERBS


def _may_go(match: re.Match[str], text: str, seen: str) -> bool:
    """Return whether the parentheses can be dropped.

    That is so if the action has no object, if they are a remark, or if their statement about the preceding thing is
    visible. For a focus action, only visible statements are dropped.
    """
    inside, ahead = match.group(1).strip(), text[: match.start()].strip()
    if _AIMLESS.match(ahead):
        return True
    about = ahead.split()[-1] if ahead else ""
    if f"{about} ({inside})" in seen:
        return True
    if not _DESCRIBES.match(inside):
        return not text.startswith("focus")
    return set(re.findall(r"[a-z0-9]+", inside)) - {"that", "which", "is", "in", "on", "the", "a"} <= set(
        re.findall(r"[a-z0-9]+", seen)
    )


def _without_title(text: str, seen: str) -> str:
    """Drop the title of a thing if that title is visible."""
    match = _TITLE.search(text)
    if match is None or strip(match.group(1)) not in seen:
        return text
    return text[: match.start()] + text[match.end() :]
