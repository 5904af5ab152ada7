"""The two calls of a constitution, judged by what they were given and what they made of it.

Rules are called by their numbers: quoting one would hand it to the proposer as advice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rsso_dspy.environments.grammar import words
from rsso_dspy.optimize.feedback.call import Call, results
from rsso_dspy.optimize.feedback.wording import Wording, covered

MOST_RULES = 50
"""Rules of one kind that a constitution holds at most."""
LONGEST_RULE = 300
"""Characters of one rule at most: two or three sentences."""
KEPT = 0.5
"""Share of its words from which on a rule counts as kept in another."""

_DONE = re.compile(r"^Step \d+\. > (.+)$", re.M)


class Rule(NamedTuple):
    """A rule by its place, e.g. "abstract rule 2"."""

    place: str
    text: str


def rule_writer(call: Call) -> Iterator[str]:
    """Against the rules that stood already and the stretch of play that was read."""
    known = [Rule("a known rule", line) for line in call.read("known_rules").splitlines() if words(line)]
    lasting = [*_rules("abstract", call.outputs), *_rules("error", call.outputs)]
    written = [*lasting, *_rules("progress", call.outputs)]
    yield from _repeated(
        lasting, known, "Only write rules that are not known already, each of them once.", call.wording
    )
    yield from _contradictory(lasting, known, call.wording)
    yield from _predicted(call)
    yield from _beyond(written)
    yield from results(call.trials)


def summarizer(call: Call) -> Iterator[str]:
    """Against the rules that were gathered."""
    gathered = [
        *_rules("abstract", call.inputs, "gathered_abstract_rules"),
        *_rules("error", call.inputs, "gathered_error_rules"),
    ]
    made = [*_rules("abstract", call.outputs), *_rules("error", call.outputs)]
    yield from _dropped(gathered, made, call.wording)
    yield from _invented(gathered, made)
    yield from _repeated(made, [], "Always merge rules that say the same into one.", call.wording)
    yield from _contradictory(made, [], call.wording)
    yield from _beyond(made)
    yield from results(call.trials)


def _rules(kind: str, fields: Any, name: str = "") -> list[Rule]:
    """The rules of one kind, in order. An error rule is its mistake, forbidden, and its solution."""
    given = fields.get(name or f"{kind}_rules") or ()
    entries = given if isinstance(given, Sequence) and not isinstance(given, str) else ()
    return [Rule(f"{kind} rule {number}", _text(entry)) for number, entry in enumerate(entries, start=1)]


def _text(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    get = entry.get if isinstance(entry, Mapping) else lambda key, default="": getattr(entry, key, default)
    return f"Do not {get('mistake', '')}.\n{get('solution', '')}"


def _repeated(rules: Sequence[Rule], known: Sequence[Rule], remedy: str, wording: Wording) -> Iterator[str]:
    facts = []
    for number, rule in enumerate(rules):
        twin = next(
            (other for other in (*known, *rules[:number]) if wording.says_the_same(rule.text, other.text)), None
        )
        if twin:
            facts.append(f"The {rule.place} says again what {_the(twin)} says.")
    yield from [*facts, remedy] if facts else ()


def _contradictory(rules: Sequence[Rule], known: Sequence[Rule], wording: Wording) -> Iterator[str]:
    facts = [
        f"The {rule.place} and {_the(other)} contradict each other: one orders what the other forbids."
        for number, rule in enumerate(rules)
        for other in (*known, *rules[:number])
        if wording.contradict(rule.text, other.text)
    ]
    if facts:
        yield from facts
        yield "Always say, where two rules differ, under which condition each of them holds."


def _predicted(call: Call) -> Iterator[str]:
    """Mistakes that no action of the stretch has a word in common with."""
    done = words("\n".join(_DONE.findall(call.read("transcript"))))
    errors = [(rule.place, words(rule.text.partition("\n")[0])) for rule in _rules("error", call.outputs)]
    unseen = [place for place, mistake in errors if done and not mistake & done]
    if unseen:
        yield f"No action of this stretch has a word of the mistake of {', '.join(unseen)}."
        yield "Only write down mistakes that were really made, and leave the list empty when there was none."


def _dropped(gathered: Sequence[Rule], made: Sequence[Rule], wording: Wording) -> Iterator[str]:
    """Rules that nothing is left of. One that another gathered rule contradicts may have been settled against."""
    lost = [
        rule.place
        for rule in gathered
        if not any(covered(rule.text, other.text) >= KEPT for other in made)
        and not any(wording.contradict(rule.text, other.text) for other in gathered)
    ]
    if lost:
        yield f"Nothing is left of what was gathered as {', '.join(lost)}."
        yield "Keep every fact that any of the gathered rules holds."


def _invented(gathered: Sequence[Rule], made: Sequence[Rule]) -> Iterator[str]:
    source = "\n".join(rule.text for rule in gathered)
    new = [rule.place for rule in made if gathered and covered(rule.text, source) < KEPT]
    if new:
        yield f"Most words of {', '.join(new)} stand in no rule that was gathered."
        yield "Only merge what was gathered, and never add to it."


def _beyond(rules: Sequence[Rule]) -> Iterator[str]:
    for kind in dict.fromkeys(rule.place.split()[0] for rule in rules):
        count = sum(rule.place.startswith(kind) for rule in rules)
        if count > MOST_RULES:
            yield f"There are {count} {kind} rules, and {MOST_RULES} is the most that a constitution holds."
            yield "Only keep the rules that matter most."
    long = [rule.place for rule in rules if len(rule.text) > LONGEST_RULE]
    if long:
        yield f"Longer than {LONGEST_RULE} characters: {', '.join(long)}."
        yield "Keep every rule to one or two short sentences."


def _the(rule: Rule) -> str:
    return rule.place if rule.place.startswith("a ") else f"the {rule.place}"
