"""Maps how people word advice to the grammar's one way: other verbs, and noun phrases that mean a sort of thing or what
the task names. A noun phrase of several words becomes one token, so that "in" and "to" inside it part no command."""

import re

from rsso_dspy.explorer.commands import normalize_words

TASK_SUBSTANCE, TASK_CONTAINER, TASK_ROOM = "named-substance", "named-container", "named-room"
TASK_THING, TASK_PRODUCT, INGREDIENTS = "named-thing", "named-product", "named-ingredients"
CLOSED, EMPTY_VESSEL, HEATER, COOLER = "closed-thing", "empty-vessel", "heater", "cooler"
UNSEEN_ROOM, OTHER_ROOM, ANYTHING = "unseen-room", "other-room", "anything"
"""Tokens that stand for a noun phrase: what the task names, a sort of thing, another room, anything."""

LONGEST = 2000
"""Maximum characters of a sentence of advice; a longer text is none."""
_PRONOUNS = frozenset({"it", "them", "that", "this", "they", "there", "one"})
_PLACEHOLDERS = frozenset(
    {"obj", "object", "container", "location", "place", "room", "something", "thing", "item", "vessel", "substance"}
    | {"animal", "plant"}
)

_THE = r"(?:(?:the|an?|any|every|each|all|some|one of the|all of the) ){0,3}"
_VESSEL = r"(?:containers?|vessels?|cups?|pots?|jugs?|bowls?|jars?)"
_BY_TASK = (
    r"(?: (?:that |which )?(?:is |are )?(?:named|mentioned|given|asked for|wanted) (?:in|by) (?:the|your) task"
    r"|(?: that| which)? (?:the|your) task (?:names|asks for|mentions|wants|is about|calls for)"
    r"| of (?:the|your) task)"
)
_BY_RECIPE = r"(?: (?:of|in|from|named (?:in|by)) the recipe| (?:that )?the recipe names)"
_HERE = r"(?: in (?:the|a|this|that|every) room)?"
_NOT_SEEN = (
    r"(?: that| which)? (?:you )?(?:have|has|were|was) not (?:been )?(?:seen|visited|searched|entered|in)"
    r"(?: (?:yet|before|so far))?"
)
_WORDINGS = (
    (rf"{_THE}substances?{_BY_TASK}|(?:the|your) task's substance", TASK_SUBSTANCE),
    (rf"{_THE}(?:ingredients?|parts)(?:{_BY_TASK}|{_BY_RECIPE})?", INGREDIENTS),
    (rf"{_THE}(?:products?|mixture|result){_BY_TASK}|the (?:finished )?product", TASK_PRODUCT),
    (rf"{_THE}(?:box|boxes|containers?){_BY_TASK}", TASK_CONTAINER),
    (rf"{_THE}(?:rooms?|locations?|places?){_BY_TASK}", TASK_ROOM),
    (rf"(?:what|whatever|{_THE}(?:things?|objects?|items?|animals?|plants?|paint|targets?)){_BY_TASK}", TASK_THING),
    (rf"{_THE}(?:closed|unopened) (?:things?|doors?|{_VESSEL}|furniture){_HERE}", CLOSED),
    (rf"(?:everything|anything|whatever|{_THE}(?:things?|{_VESSEL}))(?: that| which)? (?:is|are) closed", CLOSED),
    (rf"{_THE}empty {_VESSEL}", EMPTY_VESSEL),
    (rf"{_THE}(?:heat sources?|heaters?|heating devices?|sources? of heat)", HEATER),
    (rf"{_THE}(?:coolers?|cold places?|cooling devices?)", COOLER),
    (rf"{_THE}(?:(?:new|unseen|unvisited|unsearched) rooms?|(?:rooms?|places?){_NOT_SEEN})", UNSEEN_ROOM),
    (r"(?:another|other|a different|any other) (?:rooms?|places?)", OTHER_ROOM),
    (r"(?:anything|any thing|a thing|an object|any object|something|any action)(?: else)?", ANYTHING),
)
_NOUNS = tuple((re.compile(rf"\b(?:{pattern})(?![\w-])"), token) for pattern, token in _WORDINGS)

_LAST = r"(?=$|,| and\b| or\b)"
_FORMS = (
    (r"\b(pick|turn|switch) (it|them|that|this) (up|on|off)\b", r"\1 \3 \2"),
    (r"\bswitch(?:ing)? (on|off)\b", r"turn \1"),
    (rf"\b(?:leave|leaving) (?:the|a|this|that|your) room\b|\bleave it\b|\bleave{_LAST}", f"teleport to {OTHER_ROOM}"),
    (
        rf"\b(?:teleport|travel|wander|go)(?:ing)?(?: around| away| elsewhere| anywhere(?: else)?)?{_LAST}",
        f"teleport to {OTHER_ROOM}",
    ),
    (rf"\bfocus(?:ing)?{_LAST}", f"focus on {ANYTHING}"),
    (r"\b(?:visit|search|explore|enter|return to|head to|travel to|head for)(?:ing)? (?=\w)", "teleport to "),
    (r"\b(?:collect|fetch|get) (?=the |a |an |it\b)", "pick up "),
    (r"\b(?:keep|start) (focusing|waiting|mixing|opening|moving|pouring)\b", r"\1"),
    (r"\bstay(?= (?:there|here|in)\b)", "wait"),
    (r"\badd(?:ing)? (.+?) to\b", r"move \1 to"),
    (r"\bstir(?:ring)?\b", "mix"),
)
_VERBS = tuple((re.compile(pattern), form) for pattern, form in _FORMS)


def normalize_wording(sentence: str) -> str:
    """The sentence in the grammar's verbs, with one token for each noun phrase that means a sort of thing. What is too
    long for a sentence stays as it is."""
    if len(sentence) > LONGEST:
        return sentence
    for pattern, token in _NOUNS:
        sentence = pattern.sub(token, sentence)
    for pattern, form in _VERBS:
        sentence = pattern.sub(form, sentence)
    return sentence


def is_pronoun(phrase: str) -> bool:
    return normalize_words(phrase) in _PRONOUNS


def is_placeholder(phrase: str) -> bool:
    """Whether a phrase means something only by what was named before it: "it", "that location", "the container"."""
    wanted = normalize_words(phrase)
    return wanted in _PRONOUNS | _PLACEHOLDERS or wanted.split()[:1] in (["that"], ["this"], ["these"], ["those"])


def stem(word: str) -> str:
    """A word without its ending: boiling, boils and boil are one; so are freeze and freezing."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending)
            break
    return word.removesuffix("e") if len(word) > 4 else word
