"""How people say what the grammar says in one way: other verbs, and noun phrases that mean a sort of thing or what the
task names. A noun phrase of several words becomes one token, so that "in" and "to" inside it part no command."""

import re

from rsso_dspy.explorer.commands import normalize_words

TASK_SUBSTANCE, TASK_CONTAINER, TASK_ROOM = "named-substance", "named-container", "named-room"
TASK_THING, TASK_PRODUCT, INGREDIENTS = "named-thing", "named-product", "named-ingredients"
CLOSED, EMPTY_VESSEL, HEATER, COOLER = "closed-thing", "empty-vessel", "heater", "cooler"
UNSEEN_ROOM, OTHER_ROOM, ANYTHING = "unseen-room", "other-room", "anything"
"""What stands for a noun phrase: what the task names, a sort of thing, any other room, anything."""

_PRONOUNS = frozenset({"it", "them", "that", "this", "they", "there", "one"})
_SLOTS = frozenset(
    {"obj", "object", "container", "location", "place", "room", "something", "thing", "item", "vessel", "substance"}
    | {"animal", "plant"}
)

_NAMED = (
    r"(?: (?:that |which )?(?:is |are )?(?:named|mentioned|given|asked for|wanted|called for) (?:in|by) (?:the|your) task"
    r"|(?: that| which)? (?:the|your) task (?:names|asks for|mentions|wants|is about|calls for)"
    r"| of (?:the|your) task)"
)
_THE = r"(?:(?:the|an?|any|every|each|all|some|one of the|all of the) )*"
_VESSEL = r"(?:containers?|vessels?|cups?|pots?|jugs?|bowls?|jars?)"
_YET = r"(?: (?:yet|before|so far))?"

_NOUNS = tuple(
    (re.compile(rf"\b{pattern}(?![\w-])"), token)
    for pattern, token in (
        (rf"{_THE}substances?{_NAMED}", TASK_SUBSTANCE),
        (r"(?:the|your) task's substance", TASK_SUBSTANCE),
        (rf"{_THE}(?:ingredients?|parts)(?:{_NAMED}| (?:of|in|from|named (?:in|by)) the recipe| (?:that )?the recipe names)?", INGREDIENTS),
        (rf"{_THE}(?:products?|mixture|result){_NAMED}|the (?:finished )?product", TASK_PRODUCT),
        (rf"{_THE}(?:box|boxes|containers?){_NAMED}", TASK_CONTAINER),
        (rf"{_THE}(?:rooms?|locations?|places?){_NAMED}", TASK_ROOM),
        (rf"(?:what|whatever|{_THE}(?:things?|objects?|items?|animals?|plants?|paint|targets?)){_NAMED}", TASK_THING),
        (rf"{_THE}(?:closed|unopened) (?:things?|doors?|{_VESSEL}|furniture)(?: in (?:the|a|this|that|every) room)?", CLOSED),
        (rf"(?:everything|anything|whatever|{_THE}(?:things?|{_VESSEL}))(?: (?:that|which))? (?:is|are) closed", CLOSED),
        (rf"{_THE}empty {_VESSEL}", EMPTY_VESSEL),
        (rf"{_THE}(?:heat sources?|heaters?|heating devices?|sources? of heat)", HEATER),
        (rf"{_THE}(?:coolers?|cold places?|cooling devices?)", COOLER),
        (rf"{_THE}(?:(?:new|unseen|unvisited|unsearched) rooms?"
         rf"|(?:rooms?|places?)(?: that| which)? (?:you )?(?:have|has|were|was) not (?:been )?(?:seen|visited|searched|entered|in){_YET})", UNSEEN_ROOM),
        (r"(?:another|other|a different|any other) (?:rooms?|places?)", OTHER_ROOM),
        (r"(?:anything|any thing|a thing|an object|any object|something|any action)(?: else)?", ANYTHING),
    )
)  # fmt: skip

_VERBS = (
    (re.compile(r"\b(pick|turn|switch) (it|them|that|this) (up|on|off)\b"), r"\1 \3 \2"),
    (re.compile(r"\bswitch(?:ing)? (on|off)\b"), r"turn \1"),
    (re.compile(r"\b(?:leave|leaving) (?:the|a|this|that|your) room\b|\bleave it\b|\bleave\b(?=$|,)"), f"teleport to {OTHER_ROOM}"),
    (re.compile(r"\b(?:teleport(?:ing)?|travel(?:ing)?|wander(?:ing)?|go(?:ing)?)(?: around| away| elsewhere| anywhere(?: else)?)?(?=$|,| and\b| or\b)"),
     f"teleport to {OTHER_ROOM}"),
    (re.compile(r"\bfocus(?:ing)?(?=$|,| and\b)"), f"focus on {ANYTHING}"),
    (re.compile(r"\b(?:visit|search|explore|enter|return to|head to|travel to|head for)(?:ing)? (?=\w)"), "teleport to "),
    (re.compile(r"\b(?:collect|fetch|get) (?=the |a |an |it\b)"), "pick up "),
    (re.compile(r"\b(?:keep|start) (focusing|waiting|mixing|opening|moving|pouring)\b"), r"\1"),
    (re.compile(r"\bstay(?= (?:there|here|in)\b)"), "wait"),
    (re.compile(r"\badd(?:ing)? (.+?) to\b"), r"move \1 to"),
    (re.compile(r"\bstir(?:ring)?\b"), "mix"),
)  # fmt: skip


def normalize_wording(sentence: str) -> str:
    """The sentence in the grammar's verbs, with one token for each noun phrase that means a sort of thing."""
    for pattern, token in _NOUNS:
        sentence = pattern.sub(token, sentence)
    for pattern, form in _VERBS:
        sentence = pattern.sub(form, sentence)
    return sentence


def is_pronoun(phrase: str) -> bool:
    return normalize_words(phrase) in _PRONOUNS


def is_slot(phrase: str) -> bool:
    """Whether a phrase means something only by what was named before it: "it", "that location", "the container"."""
    wanted = normalize_words(phrase)
    return wanted in _PRONOUNS | _SLOTS or wanted.split()[:1] in (["that"], ["this"], ["these"], ["those"])


def stem(word: str) -> str:
    """A word without its ending: boiling, boils and boil are one; so are freeze and freezing."""
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word.removesuffix(ending)
            break
    return word.removesuffix("e") if len(word) > 4 else word
