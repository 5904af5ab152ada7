"""The curves of a memory file: what is shown at each point, and that a recording says the same as the model."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import memory_file
from benchmarks.memory_file import (
    HEADING,
    LONGEST_FILE,
    Answer,
    Curve,
    Material,
    Message,
    Opening,
    compute_digest,
    connect_model,
    list_played,
    make_curves,
    make_messages,
    read_command,
    read_entries,
    read_material,
)
from rsso_dspy.environments.house_rules.patterns import Pattern
from rsso_dspy.environments.house_rules.repositories import NAMES, PLAYED, get_repository
from rsso_dspy.environments.house_rules.rules import Repository, Rule
from rsso_dspy.environments.house_rules.shell import parse_line
from tests.provider_formats import Said
from tests.provider_server import provider

REPOSITORIES = [get_repository(name) for name in NAMES]


@pytest.fixture(scope="module")
def material() -> Material:
    return read_material("one")


@pytest.fixture(scope="module")
def curves(material: Material) -> tuple[Curve, ...]:
    return make_curves(material)


# What rules and requests name.


def list_patterns(repository: Repository) -> list[Pattern]:
    patterns = []
    for rule in repository.rules.values():
        patterns += [*rule.governs, *rule.allows]
        for requests in rule.requests.values():
            for request in requests:
                patterns += request.steps
    return patterns


def list_programs() -> set[str]:
    """Return the programs of all commands that a rule is about or that a request asks for."""
    programs = set()
    for repository in REPOSITORIES:
        for pattern in list_patterns(repository):
            programs |= {form.command.words[0] for form in pattern.forms}
    return programs


def list_words() -> set[str]:
    """Return all words of rules and requests."""
    words = set()
    for repository in REPOSITORIES:
        for rule in repository.rules.values():
            requests = [request for split in rule.requests.values() for request in split]
            for text in [rule.text, *(request.text for request in requests)]:
                words |= set(split_words(text))
    return words


def split_words(text: str) -> list[str]:
    return re.findall(r"[\w./-]*\w", text.lower())


def find_commands(rule: str) -> list[list[str]]:
    """Return the words of each command that a rule names in backticks; a path is none."""
    spans = re.findall(r"`([^`]+)`", rule)
    commands = [command for span in spans for command in span.split(" && ") if not span.endswith("/")]
    return [command.split() for command in commands]


def test_there_are_27_fillers(material):
    assert len(material.fillers) == len(set(material.fillers)) == 27


def test_fillers_name_no_program_of_a_rule_or_a_request(material):
    programs = {program.lower() for program in list_programs()}

    for filler in material.fillers:
        assert not programs & set(split_words(filler)), filler


def test_no_rule_or_request_names_the_program_of_a_filler(material):
    words = list_words()

    for filler in material.fillers:
        commands = find_commands(filler)
        assert commands, filler
        for program, *_ in commands:
            assert program not in words, filler


def test_no_rule_is_about_the_command_of_a_filler_or_an_exchange(material):
    lines = [exchange.command for exchange in material.conversation.exchanges]
    lines += [" ".join(command) for filler in material.fillers for command in find_commands(filler)]

    for line in lines:
        (command,) = parse_line(line)
        for repository in REPOSITORIES:
            for rule in repository.rules.values():
                assert not any(pattern.matches(command) for pattern in rule.governs), line
                assert not rule.is_broken_by(command, []), line


def test_exchanges_use_no_program_of_a_rule_or_a_request(material):
    exchanges = material.conversation.exchanges
    programs = list_programs()
    words = list_words()

    assert len(exchanges) == 20
    assert len(set(exchanges)) == 20
    for exchange in exchanges:
        program, *_ = exchange.command.split()
        assert program not in programs
        assert program not in words, program


def test_the_summary_names_no_program_of_a_rule(material):
    conversation = material.conversation
    words = split_words(f"{conversation.summary} {conversation.rule_lead}")

    assert not {program.lower() for program in list_programs()} & set(words)


# Points.


def get_opening(curves: Sequence[Curve], point: str, rule: Rule) -> Opening:
    (found,) = [each for curve in curves for each in curve.points if each.name == point]
    return found.make_opening(rule)


def list_shown(text: str) -> list[str]:
    return [line.removeprefix("- ") for line in text.splitlines() if line.startswith("- ")]


@pytest.mark.parametrize(
    ("point", "count"), [("alone", 1), ("among 4", 5), ("among 14", 15), ("among 49", 50), ("nothing shown", 0)]
)
def test_a_point_of_dilution_shows_the_rule_among_so_many(material, curves, point, count):
    for rule in list_played(material.repository):
        shown = list_shown(get_opening(curves, point, rule).text)

        assert len(set(shown)) == len(shown) == count
        assert (rule.text in shown) == (count > 0)


def test_more_others_hold_the_fewer_ones_and_the_place_of_a_rule_varies(material, curves):
    places = set()
    for rule in list_played(material.repository):
        few = list_shown(get_opening(curves, "among 4", rule).text)
        more = list_shown(get_opening(curves, "among 14", rule).text)

        assert set(few) <= set(more)
        places.add(few.index(rule.text))
    assert places == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("name", PLAYED)
def test_the_longest_file_is_the_same_for_all_rules_and_lacks_one_filler(name):
    material = read_material(name)
    curves = make_curves(material)
    rules = material.repository.rules.values()
    texts = {get_opening(curves, f"among {LONGEST_FILE - 1}", rule).text for rule in rules}

    (text,) = texts
    assert set(list_shown(text)) == {rule.text for rule in rules} | set(material.fillers[:-1])


@pytest.mark.parametrize(("point", "exchanges"), [("0 exchanges", 0), ("5 exchanges", 5), ("20 exchanges", 20)])
def test_a_point_of_distance_shows_all_rules_ahead_of_exchanges(material, curves, point, exchanges):
    for rule in list_played(material.repository):
        for request in rule.requests["dev"]:
            messages = make_messages(get_opening(curves, point, rule), request)
            system, first, *_ = messages
            *_, last = messages

            assert system["role"] == "system"
            assert first["role"] == last["role"] == "user"
            assert len(messages) == 2 + 2 * exchanges
            assert first["content"].startswith(HEADING)
            assert set(list_shown(first["content"])) == {each.text for each in material.repository.rules.values()}
            assert last["content"].endswith(request.text)
            assert sum(rule.text in message["content"] for message in messages) == 1


@pytest.mark.parametrize(("point", "has_rule"), [("summary + rule", True), ("summary alone", False)])
def test_a_summary_takes_the_place_of_rules_and_exchanges(material, curves, point, has_rule):
    rules = material.repository.rules.values()
    for rule in list_played(material.repository):
        (_, first) = make_messages(get_opening(curves, point, rule), rule.requests["dev"][0])
        shown = [each for each in rules if each.text in first["content"]]

        assert material.conversation.summary in first["content"]
        assert shown == ([rule] if has_rule else [])
        assert HEADING not in first["content"]


def test_nothing_shown_is_the_request_alone(material, curves):
    rule = list_played(material.repository)[0]
    request = rule.requests["dev"][0]
    (_, only) = make_messages(get_opening(curves, "nothing shown", rule), request)

    assert only == {"role": "user", "content": request.text}


# Answers.


@pytest.mark.parametrize(
    "answer",
    [
        "bun add zod",
        "`bun add zod`",
        "$ bun add zod",
        "`$ bun add zod`",
        "```bash\nbun add zod\n```",
        "Here it is:\n```\n$ bun add zod\n```\nThat adds it.",
        "\n\nbun add zod\nbun install",
    ],
)
def test_a_command_is_read_from_an_answer(answer):
    assert read_command(answer) == "bun add zod"


def test_a_model_is_asked_as_the_messages_say():
    messages: list[Message] = [
        {"role": "system", "content": "Answer with one line."},
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": "ls"},
        {"role": "user", "content": "And in notes?"},
    ]
    with provider(lambda _: Said("ls notes", 50, 3, cached=40)) as served:
        answer = connect_model("hosted_vllm/local", served.url)(messages)

    (sent,) = served.requests
    assert sent["messages"] == messages
    assert sent["temperature"] == 0
    assert 100 in (sent.get("max_tokens"), sent.get("max_completion_tokens"))
    assert answer == Answer("ls notes", 50, 40, 3)


# Runs.


class Knowing:
    """A model that answers every request with its solution, and counts what it is asked."""

    def __init__(self, repository: Repository):
        requests = [request for rule in repository.rules.values() for request in rule.requests["dev"]]
        self.solutions = {request.text: request.gold for request in requests}
        self.asked = 0

    def __call__(self, messages: Sequence[Message]) -> Answer:
        self.asked += 1
        for back, message in enumerate(reversed(messages)):
            text = message["content"].splitlines()[-1]
            if solution := self.solutions.get(text):
                return Answer(f"```\n{solution[back // 2]}\n```", sent=100, cached=80, written=5)
        raise AssertionError("no request is among the messages")


@pytest.fixture
def model(monkeypatch, material: Material) -> Knowing:
    model = Knowing(material.repository)
    monkeypatch.setattr(memory_file, "connect_model", lambda *_: model)
    return model


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the script with these options; returns what it prints."""

    def run(*options: object) -> str:
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["memory_file.py", *map(str, options)])
        memory_file.main()
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.jsonl.gz"])
def test_solutions_have_all_points_and_a_replay_prints_the_same(tmp_path, model, run, name):
    file = tmp_path / name
    printed = run("--model", "hosted_vllm/local", "--record", file)
    asked = model.asked
    figures = json.loads(printed.splitlines()[-1])
    rows = [row for curve in ("dilution", "distance") for row in figures[curve]]

    assert [row["score"] for row in rows] == [100] * 10
    assert [row["difference"] for row in rows] == [None, 0, 0, 0, 0] * 2
    assert [row["requests"] for row in rows] == [52] * 10
    assert {(row["sent"], row["new"]) for row in rows} == {(100, 20)}
    assert asked == 520
    assert max(len(line) for line in printed.splitlines()[:-1]) <= 80

    assert run("--replay", file) == printed
    assert run("--model", "hosted_vllm/local", "--record", file) == printed
    assert model.asked == asked


@pytest.mark.parametrize("answer", [Answer("", written=100), Answer("<think>\nHm.", written=100), Answer(" \n")])
def test_answers_that_were_cut_off_are_counted(monkeypatch, run, answer):
    monkeypatch.setattr(memory_file, "connect_model", lambda *_: lambda _: answer)
    printed = run("--model", "hosted_vllm/thinking")
    figures = json.loads(printed.splitlines()[-1])

    assert figures["unfinished"] > 100
    assert f"{figures['unfinished']} of {figures['unfinished']} answers are empty" in printed


@pytest.mark.parametrize("name", ["answers.jsonl", "answers.jsonl.gz"])
def test_a_run_that_was_ended_goes_on_where_it_was(tmp_path, monkeypatch, model, run, name):
    class Killed(Exception):
        pass

    def ask(messages: Sequence[Message]) -> Answer:
        if model.asked == 100:
            raise Killed
        return model(messages)

    file = tmp_path / name
    monkeypatch.setattr(memory_file, "connect_model", lambda *_: ask)
    with pytest.raises(Killed):
        run("--model", "hosted_vllm/local", "--record", file)
    assert len([*read_entries(file)]) == 100

    file.write_bytes(file.read_bytes()[:-30])
    assert len([*read_entries(file)]) == 99

    monkeypatch.setattr(memory_file, "connect_model", lambda *_: model)
    printed = run("--model", "hosted_vllm/local", "--record", file)
    assert model.asked == 521
    assert run("--replay", file) == printed


@pytest.mark.usefixtures("model")
def test_a_missing_request_is_named(tmp_path, material, run):
    file = tmp_path / "answers.jsonl"
    run("--model", "hosted_vllm/local", "--record", file)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[1:]))

    rule = list_played(material.repository)[0]
    request = rule.requests["dev"][0]
    opening = get_opening(make_curves(material), "alone", rule)
    digest = compute_digest(make_messages(opening, request))
    with pytest.raises(SystemExit) as ended:
        run("--replay", file)
    assert ended.value.code == f"{file} has no answer to the request {digest}, which ends with: {request.text}"


def test_a_recording_holds_answers_of_one_model(tmp_path, model, run):
    file = tmp_path / "answers.jsonl.gz"
    with gzip.open(file, "wt") as stream:
        stream.write(json.dumps({"request": "0", "model": "hosted_vllm/one", "text": "ls"}) + "\n")

    with pytest.raises(SystemExit, match="answers of hosted_vllm/one, and not only of hosted_vllm/two"):
        run("--model", "hosted_vllm/two", "--record", file)
    assert model.asked == 0


@pytest.mark.parametrize("options", [[], ["--quick"], ["--replay", "none.jsonl"]])
def test_without_a_model_and_a_recording_it_says_what_it_needs(monkeypatch, capsys, tmp_path, options):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(memory_file, "SHIPPED", Path("shipped.jsonl.gz"))
    monkeypatch.setattr(sys, "argv", ["memory_file.py", *options])
    with pytest.raises(SystemExit) as ended:
        memory_file.main()

    assert ended.value.code == 3
    assert "--model" in capsys.readouterr().out.splitlines()[-1]


def test_the_page_shows_what_the_shipped_recording_holds():
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "benchmarks.memory_file"]
    replayed = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    found = json.loads(replayed.stdout.splitlines()[-1])
    page = (root / "docs/BENCHMARKS.md").read_text(encoding="utf-8")
    section = page.partition("### How many rules, and how long ago")[2].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if re.match(r"\|[^|]+\| \d", row)]

    points = [*found["dilution"], *found["distance"]]
    assert len(rows) == len(points) == 10
    for row, point in zip(rows, points, strict=True):
        ends = f"{point['score']:.0f} | {point['low']:.0f} to {point['high']:.0f}"
        assert f"| {ends} |" in row
        assert row.endswith(f"| {point['sent']:,.0f} | {point['new']:.0f} |")
        if point["difference"] is not None:
            assert f"| {point['difference']:+.0f} | {point['difference_low']:+.0f} to" in row
