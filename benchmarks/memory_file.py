"""Is a rule of a memory file still kept with other rules around it, or with a conversation after it? On a real model.

    python -m benchmarks.memory_file --model hosted_vllm/NAME --base-url http://127.0.0.1:8000/v1 --record FILE
    python -m benchmarks.memory_file --replay FILE

Requests are those of development of a repository of `house-rules`, two a rule. Only unusual rules are played: a usual
one asks for what one would do without a memory. The prompt is a plain agent's: three sentences of instruction, the
rules, the request. A second line is asked for where a request has two steps. As in `house-rules`, a trial ends with the
first refusal, and has as many lines as steps.

`dilution`: what stands ahead of the request is the rule that matters, alone or among 4, 14 or 49 others; or nothing.
Others are drawn from the rules of the repository, and so is the place of the rule. With 49 others it is one file for
all requests: every rule of the repository, and 26 of examples/house_rules/fillers.md.

`distance`: all rules of the repository stand in the first message, and 0, 5 or 20 exchanges that no rule is about stand
between them and the request. At the last two points rules and exchanges are gone, and a summary of the conversation
stands there, with the rule that matters or without.

`score` is the mean, of 100, with its 95% interval over rules; `solved` the share of requests; `diff` the difference
from the first point of the curve, paired by request, with its interval; `sent` and `new` are tokens of a prompt, and
those that the server did not have in its cache, if it tells.

With `--record` every answer is written at once, in a line of JSON, so that the same command goes on where it was ended.
Without a model, the recording that comes along is replayed. A file that ends with .gz is packed.
"""

import argparse
import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import IO, Any, Literal

from benchmarks.script import exit_lacking, make_parser, parse_options, print_head, print_row
from rsso_dspy.answers.actions import ActionForm, read_action
from rsso_dspy.environments.house_rules.markdown import format_rules
from rsso_dspy.environments.house_rules.repositories import PLAYED, get_repository, order_by_draw
from rsso_dspy.environments.house_rules.rules import Attempt, Repository, Request, Rule
from rsso_dspy.files import atomic_path, parse_entry, read_text, read_toml
from rsso_dspy.records import SOLVED_SCORE
from rsso_dspy.report.intervals import SCORES, MeanInterval, UnitValue, estimate_interval, estimate_mean

ROOT = Path(__file__).parent.parent
FILLERS = ROOT / "examples/house_rules/fillers.md"
CONVERSATION = ROOT / "benchmarks/data/conversation.toml"
SHIPPED = ROOT / "benchmarks/recordings/memory_file.jsonl.gz"

HEADING = "# House rules"
INSTRUCTION = (
    "You work on the command line, at the root of a repository. Answer every request with one command line and nothing "
    "else. Keep the rules of the repository that you are shown."
)
NO_ANSWER = "(no answer)"
"""What stands in place of an empty answer when a second line is asked for: servers refuse an empty message."""

OTHERS = (4, 14)
LONGEST_FILE = 50  # rules
EXCHANGES = (0, 5, 20)
LONGEST_ANSWER = 100  # tokens
PATIENCE = 900  # seconds

Message = dict[str, str]


# What is shown ahead of a request.


@dataclass(frozen=True, slots=True)
class Exchange:
    request: str
    command: str


@dataclass(frozen=True, slots=True)
class Conversation:
    exchanges: tuple[Exchange, ...]
    summary: str
    rule_lead: str
    """What introduces a rule at the end of the summary."""


@dataclass(frozen=True, slots=True)
class Material:
    """What points are made of."""

    repository: Repository
    fillers: tuple[str, ...]
    """Rules about tools that no request needs."""
    conversation: Conversation


@dataclass(frozen=True, slots=True)
class Opening:
    """A text, and exchanges that follow it."""

    text: str = ""
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    make_opening: Callable[[Rule], Opening]


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    title: str
    points: tuple[Point, ...]


def read_material(repository: str) -> Material:
    return Material(get_repository(repository), read_fillers(), read_conversation())


def read_fillers() -> tuple[str, ...]:
    lines = read_text(FILLERS).splitlines()
    return tuple(line.removeprefix("- ") for line in lines if line.startswith("- "))


def read_conversation() -> Conversation:
    data = read_toml(CONVERSATION)
    exchanges = tuple(Exchange(**exchange) for exchange in data["exchange"])
    return Conversation(exchanges, data["summary"].strip(), data["rule_lead"])


def make_curves(material: Material) -> tuple[Curve, ...]:
    dilution = (
        Point("alone", partial(show_among_others, material, 0)),
        *(Point(f"among {others}", partial(show_among_others, material, others)) for others in OTHERS),
        Point(f"among {LONGEST_FILE - 1}", partial(show_longest_file, material)),
        Point("nothing shown", show_nothing),
    )
    distance = (
        *(Point(f"{exchanges} exchanges", partial(show_exchanges, material, exchanges)) for exchanges in EXCHANGES),
        Point("summary + rule", partial(show_summary_with_rule, material)),
        Point("summary alone", partial(show_summary, material)),
    )
    return (
        Curve("dilution", "Dilution: the rule among others", dilution),
        Curve("distance", "Distance: exchanges between the rules and the request", distance),
    )


def show_nothing(_: Rule) -> Opening:
    return Opening()


def show_among_others(material: Material, others: int, rule: Rule) -> Opening:
    """Return the rule among others of its repository. More others hold the fewer ones."""
    repository = material.repository
    names = [name for name in repository.rules if name != rule.name]
    drawn = order_by_draw(names, "others", repository.name, rule.name)[:others]
    placed = order_by_draw([rule.name, *drawn], "places", repository.name, rule.name, str(others))
    return Opening(format_texts([repository.rules[name].text for name in placed]))


def show_longest_file(material: Material, _: Rule) -> Opening:
    """Return all rules of the repository among fillers: the same for every rule."""
    repository = material.repository
    own = [rule.text for rule in repository.rules.values()]
    texts = [*own, *material.fillers][:LONGEST_FILE]
    return Opening(format_texts(order_by_draw(texts, "places", repository.name)))


def show_exchanges(material: Material, exchanges: int, _: Rule) -> Opening:
    """Return all rules of the repository, and the first exchanges of the conversation."""
    return Opening(format_rules(material.repository), material.conversation.exchanges[:exchanges])


def show_summary(material: Material, _: Rule) -> Opening:
    return Opening(material.conversation.summary)


def show_summary_with_rule(material: Material, rule: Rule) -> Opening:
    conversation = material.conversation
    return Opening(f"{conversation.summary} {conversation.rule_lead} {rule.text}")


def format_texts(texts: Sequence[str]) -> str:
    return "\n".join([HEADING, "", *(f"- {text}" for text in texts)]) + "\n"


def make_messages(opening: Opening, request: Request) -> list[Message]:
    """Return the messages ahead of the first answer. What opens the conversation stands in the first one of the
    user."""
    messages = [_make_message("system", INSTRUCTION)]
    for exchange in opening.exchanges:
        messages += [_make_message("user", exchange.request), _make_message("assistant", exchange.command)]
    messages.append(_make_message("user", request.text))

    if opening.text:
        first = messages[1]
        first["content"] = f"{opening.text.rstrip()}\n\n{first['content']}"
    return messages


def _make_message(role: str, content: str) -> Message:
    return {"role": role, "content": content}


# Answers: of a model, and of a recording.


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    sent: int | None = None
    """Tokens of the prompt, if the server tells."""
    cached: int | None = None
    """Those of them that the server had in its cache."""
    written: int | None = None

    @property
    def is_unfinished(self) -> bool:
        """Whether it says nothing, or was cut off: its points tell of the limit, not of the rule."""
        return not self.text.strip() or (self.written is not None and self.written >= LONGEST_ANSWER)


Ask = Callable[[Sequence[Message]], Answer]


@dataclass
class Answers:
    """Answers by the digest of their request. One that is not known yet is asked for, and recorded."""

    model: str
    known: dict[str, Answer] = field(default_factory=dict)
    file: Path | None = None
    """The recording."""
    ask: Ask | None = None
    """Asks the model. None: whatever is not known is an error."""

    def get(self, messages: Sequence[Message]) -> Answer:
        digest = compute_digest(messages)
        if digest not in self.known:
            self.known[digest] = self._ask_for(digest, messages)
        return self.known[digest]

    def save(self) -> None:
        """Write the recording as a whole."""
        if self.file is None or self.ask is None:
            return
        lines = [self._format_line(digest, answer) for digest, answer in self.known.items()]
        content = "".join(lines).encode()
        packed = gzip.compress(content, mtime=0) if is_packed(self.file) else content
        with atomic_path(self.file) as path:
            path.write_bytes(packed)

    def _ask_for(self, digest: str, messages: Sequence[Message]) -> Answer:
        if self.ask is None:
            last = messages[-1]["content"].splitlines()[-1]
            raise SystemExit(f"{self.file} has no answer to the request {digest}, which ends with: {last}")

        answer = self.ask(messages)
        if self.file is not None:
            with open_recording(self.file, "at") as stream:
                stream.write(self._format_line(digest, answer))
        return answer

    def _format_line(self, digest: str, answer: Answer) -> str:
        return json.dumps({"request": digest, "model": self.model, **asdict(answer)}) + "\n"


def compute_digest(messages: Sequence[Message]) -> str:
    text = json.dumps(messages, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def open_answers(options: argparse.Namespace) -> Answers:
    """Return the answers of a recording, or of a model with those that were recorded before."""
    if options.model is None and options.replay is None:
        options.replay = SHIPPED
    if options.replay is not None:
        if not options.replay.is_file():
            exit_lacking("a model, --model NAME --base-url URL, or a recording of one, --replay FILE")
        return read_answers(options.replay)

    answers = Answers(options.model)
    if options.record is not None and options.record.is_file():
        answers = read_answers(options.record, options.model)
    answers.file = options.record
    answers.ask = connect_model(options.model, options.base_url)
    answers.save()
    return answers


def read_answers(file: Path, model: str = "") -> Answers:
    """Read a recording, which has to be one of this model, if one is named."""
    known = {}
    for entry in read_entries(file):
        digest, of_model = entry.pop("request"), entry.pop("model")
        model = model or of_model
        if of_model != model:
            raise SystemExit(f"{file} holds answers of {of_model}, and not only of {model}")
        known[digest] = Answer(**entry)
    return Answers(model, known, file)


def read_entries(file: Path) -> Iterator[dict[str, Any]]:
    """Yield what the lines of a recording hold, but for a last one that was cut off."""
    with suppress(EOFError, gzip.BadGzipFile, zlib.error), open_recording(file, "rt") as stream:
        for line in stream:
            if line.endswith("\n") and (entry := parse_entry(line)) is not None:
                yield entry


def open_recording(file: Path, mode: Literal["rt", "at"]) -> IO[str]:
    if is_packed(file):
        return gzip.open(file, mode, encoding="utf-8")
    return open(file, mode, encoding="utf-8")


def is_packed(file: Path) -> bool:
    return file.suffix == ".gz"


def connect_model(name: str, url: str | None) -> Ask:
    """Return what asks a model at temperature 0. Without an address its provider's is taken, with the key of the
    environment."""
    import dspy
    from dspy import lm15

    address = {"api_base": url, "api_key": "none"} if url else {}
    lm = dspy.LM(name, cache=False, timeout=PATIENCE, **address)
    settings = lm15.Config(temperature=0, max_tokens=LONGEST_ANSWER)
    makers = {"user": lm15.Message.user, "assistant": lm15.Message.assistant}

    def ask(messages: Sequence[Message]) -> Answer:
        system, *others = messages
        said = tuple(makers[message["role"]](message["content"]) for message in others)
        response = lm(lm15.Request(name, said, system=system["content"], config=settings))
        usage = response.usage
        return Answer(response.text or "", usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)

    return ask


# Trials.


@dataclass(frozen=True, slots=True)
class Trial:
    score: int
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """All trials of a point."""

    scores: tuple[UnitValue, ...]
    answers: tuple[Answer, ...]


def play_point(point: Point, repository: Repository, answers: Answers) -> Result:
    scores = []
    given: list[Answer] = []
    for rule in list_played(repository):
        opening = point.make_opening(rule)
        for place, request in enumerate(rule.requests["dev"]):
            trial = play_request(opening, repository, request, answers)
            scores.append(UnitValue(rule.name, place, float(trial.score)))
            given += trial.answers
    return Result(tuple(scores), tuple(given))


def list_played(repository: Repository) -> list[Rule]:
    return [rule for rule in repository.rules.values() if not rule.is_usual]


def play_request(opening: Opening, repository: Repository, request: Request, answers: Answers) -> Trial:
    messages = make_messages(opening, request)
    attempt = Attempt(repository, request)
    given = []
    for _ in request.steps:
        answer = answers.get(messages)
        given.append(answer)
        verdict = attempt.run(read_command(answer.text))
        if verdict.is_refused or attempt.is_done:
            break
        said = answer.text.strip() or NO_ANSWER
        messages += [_make_message("assistant", said), _make_message("user", verdict.answer)]
    return Trial(attempt.score, tuple(given))


def read_command(text: str) -> str:
    """Return the first line of an answer, without fences, backticks and the mark of a prompt."""
    return read_action(text, ActionForm()).removeprefix("$ ")


# Tables.


@dataclass(frozen=True, slots=True)
class Row:
    """What a point came to."""

    point: str
    score: float
    low: float
    high: float
    solved: float
    """Share of requests."""
    difference: float | None
    """From the first point; None for that one itself."""
    difference_low: float | None
    difference_high: float | None
    requests: int
    """That the model was sent."""
    sent: float | None
    """Tokens of a prompt, on average; None if the server does not tell them all."""
    new: float | None
    """Those of them that were not in its cache."""


def summarize_result(point: Point, result: Result, first: Result) -> Row:
    scores = [score.value for score in result.scores]
    estimate = estimate_mean(result.scores, SCORES)
    low, high = estimate.ends
    difference = estimate_difference(result, first)
    return Row(
        point=point.name,
        score=round(estimate.mean, 1),
        low=round(low, 1),
        high=round(high, 1),
        solved=round(fmean(score == SOLVED_SCORE for score in scores), 3),
        difference=round(difference.mean, 1) if difference else None,
        difference_low=round(difference.low, 1) if difference else None,
        difference_high=round(difference.high, 1) if difference else None,
        requests=len(result.answers),
        sent=average_counts([answer.sent for answer in result.answers]),
        new=average_counts([count_new(answer) for answer in result.answers]),
    )


def estimate_difference(result: Result, first: Result) -> MeanInterval | None:
    if result is first:
        return None
    pairs = zip(result.scores, first.scores, strict=True)
    return estimate_interval([replace(score, value=score.value - other.value) for score, other in pairs])


def count_new(answer: Answer) -> int | None:
    if answer.sent is None or answer.cached is None:
        return None
    return answer.sent - answer.cached


def average_counts(counts: Sequence[int | None]) -> float | None:
    known = [count for count in counts if count is not None]
    return round(fmean(known), 1) if known and len(known) == len(counts) else None


WIDTHS = {"point": 14, "score": 5, "95%": 6, "solved": 6, "diff": 4, "95% of it": 11, "sent": 4, "new": 4}
"""Columns of a table with their widths: one that is filled has 79 characters."""


def print_table_head(curve: Curve) -> None:
    print(f"\n{curve.title}\n")
    print_head(*(name.ljust(width) for name, width in WIDTHS.items()))


def print_table_row(row: Row) -> None:
    cells = (
        row.point.ljust(WIDTHS["point"]),
        format_number(row.score),
        format_range(row.low, row.high, "-"),
        f"{row.solved:.0%}",
        format_number(row.difference),
        format_range(row.difference_low, row.difference_high, " to "),
        format_number(row.sent),
        format_number(row.new),
    )
    print_row(*(cell.rjust(width) for cell, width in zip(cells, WIDTHS.values(), strict=True)))


def format_number(number: float | None) -> str:
    if number is None:
        return ""
    return f"{round(number)}"


def format_range(low: float | None, high: float | None, between: str) -> str:
    if low is None or high is None:
        return ""
    return f"{format_number(low)}{between}{format_number(high)}"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", default=PLAYED[0], choices=PLAYED, help="the repository")
    parser.add_argument("--model", help="as DSPy names it, such as hosted_vllm/NAME for a server of one's own")
    parser.add_argument("--base-url", help="the address of that server")
    recording = parser.add_mutually_exclusive_group()
    recording.add_argument("--record", type=Path, metavar="FILE", help="write answers there; go on with what it has")
    recording.add_argument("--replay", type=Path, metavar="FILE", help="take answers from there and ask no model")
    options = parse_options(parser, replay=SHIPPED)

    material = read_material(options.data)
    answers = open_answers(options)
    rules = len(list_played(material.repository))
    print(f"{answers.model}, {rules} unusual rules of the repository {options.data}")

    rows: dict[str, list[Row]] = {}
    for curve in make_curves(material):
        print_table_head(curve)
        rows[curve.name] = []
        first = None
        for point in curve.points:
            result = play_point(point, material.repository, answers)
            first = first or result
            row = summarize_result(point, result, first)
            rows[curve.name].append(row)
            print_table_row(row)
    answers.save()

    unfinished = sum(answer.is_unfinished for answer in answers.known.values())
    if unfinished:
        print(
            f"\n{unfinished} of {len(answers.known)} answers are empty, or were cut off at {LONGEST_ANSWER} tokens:\n"
            "a model that thinks first cannot be measured so"
        )

    figures = {
        "benchmark": "memory_file",
        "model": answers.model,
        "data": options.data,
        "digest": material.repository.digest,
        "rules": rules,
        "unfinished": unfinished,
        **{name: [asdict(row) for row in rows_of_curve] for name, rows_of_curve in rows.items()},
    }
    print(f"\n{json.dumps(figures)}")


if __name__ == "__main__":
    main()
