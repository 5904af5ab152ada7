"""Judges the two calls of a constitution by their inputs and outputs.

Rules are named by their numbers: a quoted rule would reach the proposer as advice.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rsso_dspy.environments.grammar import extract_content_words
from rsso_dspy.optimize.feedback.predictor_call import PredictorCall, report_results
from rsso_dspy.optimize.feedback.remarks import Advice
from rsso_dspy.optimize.feedback.wording import WordingComparer, measure_coverage

MOST_RULES = 50
"""Maximum rules of one kind in a constitution."""
LONGEST_RULE = 300
"""Maximum characters of a rule: two or three sentences."""
KEPT = 0.5
"""Share of its words that another rule must contain for a rule to count as kept."""

_DONE = re.compile(r"^Step \d+\. > (.+)$", re.M)


class NumberedRule(NamedTuple):
    """A rule with its number, e.g. "abstract rule 2"."""

    place: str
    text: str


def judge_rule_writer(call: PredictorCall) -> Iterator[str]:
    """Judge new rules against the known ones and the stretch of play that was read."""
    known = [
        NumberedRule("a known rule", line)
        for line in call.get_input("known_rules").splitlines()
        if extract_content_words(line)
    ]
    lasting = [*_list_rules("abstract", call.outputs), *_list_rules("error", call.outputs)]
    written = [*lasting, *_list_rules("progress", call.outputs)]
    yield from _report_repeated_rules(
        lasting, known, "Only write rules that are not known already, each of them once.", call.wording
    )
    yield from _report_contradictions(lasting, known, call.wording)
    yield from _report_unmade_mistakes(call)
    yield from _report_excess(written)
    yield from report_results(call.trials)


def judge_summarizer(call: PredictorCall) -> Iterator[str]:
    """Judge a summary against the gathered rules."""
    gathered = [
        *_list_rules("abstract", call.inputs, "gathered_abstract_rules"),
        *_list_rules("error", call.inputs, "gathered_error_rules"),
    ]
    made = [*_list_rules("abstract", call.outputs), *_list_rules("error", call.outputs)]
    yield from _report_dropped_rules(gathered, made, call.wording)
    yield from _report_invented_rules(gathered, made)
    yield from _report_repeated_rules(made, [], "Always merge rules that say the same into one.", call.wording)
    yield from _report_contradictions(made, [], call.wording)
    yield from _report_excess(made)
    yield from report_results(call.trials)


def _list_rules(kind: str, fields: Any, name: str = "") -> list[NumberedRule]:
    """The rules of one kind, in order. An error rule is its mistake, forbidden, and its solution."""
    given = fields.get(name or f"{kind}_rules") or ()
    entries = given if isinstance(given, Sequence) and not isinstance(given, str) else ()
    return [
        NumberedRule(f"{kind} rule {number}", _write_rule_text(entry)) for number, entry in enumerate(entries, start=1)
    ]


def _write_rule_text(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    get = entry.get if isinstance(entry, Mapping) else lambda key, default="": getattr(entry, key, default)
    return f"Do not {get('mistake', '')}.\n{get('solution', '')}"


def _report_repeated_rules(
    rules: Sequence[NumberedRule], known: Sequence[NumberedRule], remedy: str, wording: WordingComparer
) -> Iterator[str]:
    facts = []
    for number, rule in enumerate(rules):
        twin = next((other for other in (*known, *rules[:number]) if wording.is_same_text(rule.text, other.text)), None)
        if twin:
            facts.append(f"The {rule.place} says again what {_name_rule(twin)} says.")
    yield from [*facts, Advice(remedy)] if facts else ()


def _report_contradictions(
    rules: Sequence[NumberedRule], known: Sequence[NumberedRule], wording: WordingComparer
) -> Iterator[str]:
    facts = [
        f"The {rule.place} and {_name_rule(other)} contradict each other: one orders what the other forbids."
        for number, rule in enumerate(rules)
        for other in (*known, *rules[:number])
        if wording.is_contradiction(rule.text, other.text)
    ]
    if facts:
        yield from facts
        yield Advice("Always say, where two rules differ, under which condition each of them holds.")


def _report_unmade_mistakes(call: PredictorCall) -> Iterator[str]:
    """Report mistakes that share no word with any action of the stretch."""
    done = extract_content_words("\n".join(_DONE.findall(call.get_input("transcript"))))
    errors = [
        (rule.place, extract_content_words(rule.text.partition("\n")[0])) for rule in _list_rules("error", call.outputs)
    ]
    unseen = [place for place, mistake in errors if done and not mistake & done]
    if unseen:
        yield f"No action of this stretch has a word of the mistake of {', '.join(unseen)}."
        yield Advice("Only write down mistakes that were really made, and leave the list empty when there was none.")


def _report_dropped_rules(
    gathered: Sequence[NumberedRule], made: Sequence[NumberedRule], wording: WordingComparer
) -> Iterator[str]:
    """Report rules that were lost, except those that another gathered rule contradicts."""
    lost = [
        rule.place
        for rule in gathered
        if not any(measure_coverage(rule.text, other.text) >= KEPT for other in made)
        and not any(wording.is_contradiction(rule.text, other.text) for other in gathered)
    ]
    if lost:
        yield f"Nothing is left of what was gathered as {', '.join(lost)}."
        yield Advice("Keep every fact that any of the gathered rules holds.")


def _report_invented_rules(gathered: Sequence[NumberedRule], made: Sequence[NumberedRule]) -> Iterator[str]:
    source = "\n".join(rule.text for rule in gathered)
    new = [rule.place for rule in made if gathered and measure_coverage(rule.text, source) < KEPT]
    if new:
        yield f"Most words of {', '.join(new)} stand in no rule that was gathered."
        yield Advice("Only merge what was gathered, and never add to it.")


def _report_excess(rules: Sequence[NumberedRule]) -> Iterator[str]:
    for kind in dict.fromkeys(rule.place.split()[0] for rule in rules):
        count = sum(rule.place.startswith(kind) for rule in rules)
        if count > MOST_RULES:
            yield f"There are {count} {kind} rules, and {MOST_RULES} is the most that a constitution holds."
            yield Advice("Only keep the rules that matter most.")
    long = [rule.place for rule in rules if len(rule.text) > LONGEST_RULE]
    if long:
        yield f"Longer than {LONGEST_RULE} characters: {', '.join(long)}."
        yield Advice("Keep every rule to one or two short sentences.")


def _name_rule(rule: NumberedRule) -> str:
    return rule.place if rule.place.startswith("a ") else f"the {rule.place}"
