"""Carries out actions under the interface `complete`: tries several wordings and resolves questions.

An action is first tried as written. The parser wants short names and no punctuation; models write names as observed. An
unknown input costs no time and changes nothing, so other wordings are tried one by one until one is known; the list of
all valid actions, which is expensive, comes last. No wording may change the meaning: words in parentheses are dropped
only if they carry no information or agree with what is visible.

A question about an ambiguous action is answered with the number of the chosen option. Any other action cancels it,
which takes a moment, and is carried out. Options with equal words are distinguished by the content or appearance of the
things in the listing: the simulator asks in the order in which it lists. If no two differ, the first is chosen
unasked."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

from rsso_dspy.environments.scienceworld import actions
from rsso_dspy.environments.scienceworld.actions import VERBS, parse_command

MOST = 32  # maximum number of wordings
MOST_PARENTHESES = 4  # maximum pairs of parentheses considered, to limit the number of wordings

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
_AIMLESS = re.compile(r"(?:wait1?|look around|look|inventory|task)$")


def strip(action: str) -> str:
    """Strip what surrounds an action: a label, a list mark, quotes, bold, a final period."""
    before = None
    while before != action:
        before = action
        action = _LABEL.sub("", _MARK.sub("", action.strip(_EDGES + "-•>+" if not action[:1].isdigit() else _EDGES)))
    return action


def wordings(action: str, seen: str) -> Iterator[str]:
    """Yield other wordings of an action, the nearest first, without duplicates, at most `MOST`. `seen` is the text of
    surroundings and inventory, which dropped parts must agree with."""
    told = {action}
    shown = " ".join(seen.lower().split())
    for wording in _all(action, shown):
        wording = " ".join(wording.split())
        if wording and wording not in told:
            told.add(wording)
            yield wording
        if len(told) > MOST:
            break


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
    short = _STAGE.sub(lambda match: match.group(1) if match.group() in seen else match.group(), short)
    yield short
    yield strip(_STATE.sub("", short))
    plain = strip(_STATE.sub("", strip(_without_title(short, seen))))
    yield plain
    for pattern, spelling in _SPELLINGS:
        plain = pattern.sub(spelling, plain)
    yield plain
    understood = parse_command(plain)
    if understood is not None and understood.verb != "choose":
        yield understood.text


def _first_sentence(text: str) -> str:
    """Return the first sentence that is an action, unless a later one takes it back."""
    first, *more = _SENTENCES.split(text)
    if any(re.match(r"(?:no|wait(?! *$)|actually|instead|rather|or)\b", sentence) for sentence in more):
        return text
    acts = [sentence for sentence in (first, *more) if _acts(sentence)]
    return acts[0] if acts else first


def _acts(sentence: str) -> bool:
    bare = strip(sentence)
    return parse_command(bare) is not None or _AIMLESS.match(bare) is not None or bare.split(" ")[0] in VERBS


def _may_go(match: re.Match[str], text: str, seen: str) -> bool:
    """Return whether the parentheses can be dropped. That is so if the action has no object, if they are a remark, or
    if their statement about the preceding thing is visible. For a focus action, only visible statements are dropped."""
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


_OPTION = re.compile(r"^\s*(\d+):\s*(.+?)\s*$", re.M)
_PLACED = re.compile(r"([a-z0-9][a-z0-9 '%-]*?) \((in [^()]*)\)")
_NUMBER = re.compile(r"[\W_]*(?:(?:i|choose|answer|option|number|the)[\W_]+)*(\d+)(?:[\W_]*|\s*[:.)]\s*\D.*)")
"""A number alone, or with the text of its option behind it."""
_WORD = re.compile(r"[a-z0-9]+")
_SMALL = frozenset({"to", "the", "for", "on", "in", "a", "an", "into", "of", "is", "that", "which", "and"})


@dataclass(frozen=True)
class Question:
    """A question, with the state in which it was asked."""

    answer: str
    look: str
    inventory: str

    @cached_property
    def options(self) -> dict[str, str]:
        return {number: text.lower() for number, text in _OPTION.findall(self.answer)}

    @cached_property
    def marks(self) -> dict[str, str]:
        """Option number to its distinguishing mark among options with equal words, where there is one."""
        found: dict[str, str] = {}
        for text in dict.fromkeys(self.options.values()):
            alike = [number for number, other in self.options.items() if other == text]
            if len(alike) > 1:
                found.update(zip(alike, self._differences(text, len(alike)), strict=False))
        return found

    @property
    def idle(self) -> bool:
        """Whether no visible difference exists between the options."""
        return len(set(self.options.values())) == 1 and not self.marks

    def render_question(self) -> str:
        lines = [
            f"{line.rstrip()}: the {mark}"
            if (match := _OPTION.match(line)) and (mark := self.marks.get(match[1]))
            else line
            for line in self.answer.rstrip().splitlines()
        ]
        return "\n".join(lines)

    def choose(self, action: str) -> str | None:
        """Return the option number that an answer means; None if it is another action or matches no option."""
        said = " ".join(action.lower().split())
        if (match := _NUMBER.fullmatch(said)) and match.group(1) in self.options:
            return match.group(1)
        return self.find_described(said)

    def find_described(self, action: str) -> str | None:
        """Return the number of the only option whose words an action has; its numbers are parts of names."""
        described = self._list_described(" ".join(action.lower().split()))
        return described[0] if described and (len(described) == 1 or self._same(described)) else None

    def _list_described(self, said: str) -> list[str]:
        """List the options that fit the words best: all words, all but the places, or at least those said."""
        wanted = _words(strip(said))
        for fits in (
            lambda number: _words(self.options[number]) == wanted,
            lambda number: _words(_PLACED.sub(r"\1", self.options[number])) == wanted,
            lambda number: wanted <= _words(f"{self.options[number]} {self.marks.get(number, '')}"),
        ):
            chosen = [number for number in self.options if wanted and fits(number)]
            if chosen:
                return chosen
        return []

    def _same(self, numbers: Sequence[str]) -> bool:
        return len({(self.options[number], self.marks.get(number, "")) for number in numbers}) == 1

    def _differences(self, text: str, count: int) -> list[str]:
        """Return the listed things of that name at the option's place, if their number matches and they differ."""
        for name, place in _PLACED.findall(text):
            listed = self._listed_in(place)
            for start in range(len(name.split())):
                shown = _mentions(" ".join(name.split()[start:]), listed)
                if len(shown) == count and len(set(shown)) > 1:
                    return shown
        return []

    def _listed_in(self, place: str) -> str:
        """Return the part of the listing about a place such as ``in inventory, in agent, in kitchen``."""
        inner, *outer = [each.removeprefix("in ").strip() for each in place.split(", in ")]
        lines = [line.strip().lower() for line in self.look.splitlines() if line.startswith(("\t", " "))]
        if inner == "inventory":
            return self.inventory.lower()
        if not outer:  # in the room itself: the subject of each line with its parentheses, without its content
            return "\n".join(re.split(r"\.\s+(?:in|on) the [a-z0-9 ]+ is:", line, maxsplit=1)[0] for line in lines)
        holder = re.compile(rf"(?:in|on) the {re.escape(inner)} is: (.*)|{re.escape(inner)} \(containing (.*)\)")
        held = (match for line in lines if (match := holder.search(line)))
        return "\n".join(match.group(1) or match.group(2) for match in held)


def _mentions(thing: str, listed: str) -> list[str]:
    """Return how a listing shows each thing of that name: with the parentheses after it, or to the end of the line."""
    name = rf"(?:^|,\s*|\s)(?:an?|some|the)\s+(?:substance called )?({re.escape(thing)})(?=[\s,.(]|$)([^\n]*)"
    return [(match.group(1) + _details(match.group(2))).strip(" .,") for match in _each(name, listed)]


def _each(name: str, listed: str) -> Iterator[re.Match[str]]:
    """Find matches of a pattern that consumes the rest of the line, each search starting after the previous name."""
    place = 0
    pattern = re.compile(name, re.M)
    while match := pattern.search(listed, place):
        yield match
        place = match.end(1)


def _details(rest: str) -> str:
    """Return the text after a name: balanced parentheses, or a clause up to the next sentence."""
    rest = rest.strip()
    if not rest.startswith("("):
        return "" if not rest.startswith(",") else rest.split(".")[0]
    depth = 0
    for place, letter in enumerate(rest):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return f" {rest[: place + 1]}"
    return f" {rest}"


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower())) - _SMALL


_NOTHING = re.compile(
    r"It'?s not clear|I'?m not sure how|Nothing happens|You (?:are|must|need)\b|There(?:'s| is| are) (?:no|nothing)\b"
    r"|.{0,80}\b(?:can'?t|cannot|isn'?t|doesn'?t|must be|appears to be (?:no|in))\b"
    r"|.{0,80}\b(?:is|are) (?:already|not|no longer)\b",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Done:
    sent: str
    answer: str
    asks: Question | None = None  # the question in the answer, if any


@dataclass(frozen=True, slots=True)
class Parser:
    """The simulator's interface for  ``act`` sends a text and returns the answer; ``sights`` returns the
    current surroundings and inventory; ``valid`` lists all valid"""

    act: Callable[[str], str]
    sights: Callable[[], tuple[str, str]]
    valid: Callable[[], Sequence[str]]

    def take(self, said: str, asked: Question | None) -> Done:
        """Carry out an actor's answer, given the open question."""
        if asked is not None:
            number = asked.choose(said)
            if number is not None:
                return self._answered(number, self.act(number))
            back = self.act(actions.CANCEL)
            if _says_no_action(said):
                return Done(actions.CANCEL, back)
        return self._try(said)

    def _try(self, said: str) -> Done:
        if actions.is_task_reset(said):
            return Done(said, actions.NOT_KNOWN)
        answer = self.act(said)
        if answer != actions.NOT_KNOWN:
            return self._answered(said, answer)
        look, inventory = self.sights()
        tried = {said}
        for wording in wordings(said, f"{look} {inventory}"):
            if actions.is_task_reset(wording):
                continue
            tried.add(wording)
            answer = self.act(wording)
            if answer != actions.NOT_KNOWN:
                return self._answered(wording, answer, said)
        valid = self.valid()
        equal = next(
            (found for wording in (said, *tried) if (found := actions.find_equal_action(wording, valid))), None
        )
        return Done(said, answer) if equal is None else self._answered(equal, self.act(equal), said)

    def _answered(self, sent: str, answer: str, said: str = "") -> Done:
        """Return the result of an answer; a question with a known answer is answered at once."""
        if not is_question(answer):
            return Done(sent, answer)
        question = Question(answer, *self.sights())
        number = "0" if question.idle else (question.find_described(said) if said and not said.isdigit() else None)
        if number is None:
            return Done(sent, question.render_question(), question)
        return replace(self._answered("", self.act(number)), sent=sent)


def _says_no_action(said: str) -> bool:
    """Return whether an answer is empty, cancels the question, or is a number without an option."""
    return re.fullmatch(r"[\W_]*(?:cancel|none|blank|neither|nothing)?[\W_]*|\D{0,12}\d+\W*", said) is not None


def is_question(answer: str) -> bool:
    return answer.startswith(actions.AMBIGUOUS)


def did_nothing(answer: str) -> bool:
    """Return whether an answer says that an understood action had no effect."""
    return "\n" not in answer.strip() and _NOTHING.match(answer) is not None
