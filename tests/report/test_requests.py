"""Requests in the page's data: messages as they were sent, each once, whatever is taken for a heading."""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rsso_dspy.api import collect_played
from rsso_dspy.calls import Call, text_of
from rsso_dspy.cli.results import load_calls, open_runs
from rsso_dspy.regions import REGIONS
from rsso_dspy.report.page import PageCalls, build_record_data
from rsso_dspy.report.requests import MessageTable, Part, split_message, split_system
from rsso_dspy.report.terminal import replace_controls
from tests.cli.conftest import rsso  # noqa: F401 - a fixture
from tests.cli.test_report import write_logs
from tests.report.page_reading import expand

RECORDED = Path(__file__).parents[2] / "examples/recorded"
RUNS = sorted(file.parent.name for file in RECORDED.glob("*/run.json"))


def check_requests(folder: Path) -> Iterator[tuple[Call, list[str]]]:
    """Check every request of a run's log against what the page holds of it; yields each with the names of its parts."""
    pool = open_runs([folder])
    played = collect_played(pool)
    (store,) = pool.stores
    for record in [*played.records, *played.trainings]:
        calls = load_calls(store, record)
        data = expand(build_record_data(record, PageCalls(calls)))
        for trial in data["trials"]:
            assert "shown" not in trial, "a prompt is shown by its request alone"
            logged = sorted(calls.get(trial["trial"], ()), key=lambda call: call.role != "actor")
            for exchange, call in zip(trial["exchanges"], logged, strict=True):
                messages = [data["messages"][number] for number in exchange["messages"]]
                sent = [(role, "".join(text for _, text in parts)) for role, parts in messages]
                assert sent == [
                    (said["role"], replace_controls(text_of(said["content"]))) for said in call.request["messages"]
                ]
                yield call, [name for _, parts in messages for name, _ in parts]


@pytest.mark.parametrize("name", RUNS)
def test_the_page_of_a_recorded_run_holds_every_request_as_it_was_sent(name):
    checked = list(check_requests(RECORDED / name))
    acting = [parts for call, parts in checked if call.role == "actor"]
    assert acting
    for parts in acting:
        assert {"instruction", "form_of_the_answer", "about", "task", "observation"} <= set(parts)
        assert set(parts) - {"instruction", "form_of_the_answer", "examples", ""} <= set(REGIONS)


def test_the_page_of_a_fresh_run_holds_every_request_of_each_memory(memories_run):
    regions = {part for call, parts in check_requests(memories_run) if call.role == "actor" for part in parts}
    assert regions >= {"plans_from_past_attempts", "constitution", "past_attempts", "experience"}
    assert not regions - set(REGIONS) - {"instruction", "form_of_the_answer", ""}


SENT = "About: A house.\n\nTask: open a door\nObservation: A door.\nPossible actions: open door; wait"
PARTS = [
    Part("about", "About: A house.\n\n"),
    Part("task", "Task: open a door\n"),
    Part("observation", "Observation: A door.\n"),
    Part("possible_actions", "Possible actions: open door; wait"),
]


def test_a_message_is_split_at_the_labels_of_its_fields():
    assert split_message(SENT, REGIONS) == PARTS
    assert split_message("Skills (subgoals): none", REGIONS) == [Part("skills", "Skills (subgoals): none")]
    assert split_message("Notes: mine", ["notes"]) == [Part("notes", "Notes: mine")]
    assert split_message("Notes: mine", REGIONS) == [Part("", "Notes: mine")], "no field of this name"
    assert split_message("A task: open\n - Task: no", REGIONS) == [Part("", "A task: open\n - Task: no")]
    assert split_message("", REGIONS) == []


def test_a_label_that_is_quoted_begins_no_part():
    quoted = "Past attempts: Attempt 1:\nTask: an older one\n"
    assert split_message(f"{quoted}\nTask: this one", REGIONS) == [
        Part("past_attempts", f"{quoted}\n"),
        Part("task", "Task: this one"),
    ]


def test_the_steps_of_a_history_are_one_part():
    history = "History:\nNotice: Refused.\n\nObservation: A hall.\nAction: wait\n\n"
    now = ["Notice: Look up.\n\n", "Observation: A room."]
    assert split_message(history + now[1], REGIONS) == [Part("history", history), Part("observation", now[1])]
    assert split_message(history + "".join(now), REGIONS) == [
        Part("history", history),
        Part("notice", now[0]),
        Part("observation", now[1]),
    ]


def test_the_marks_of_another_adapter_begin_parts():
    sent = "[[ ## task ## ]]\nopen a door\n\n[[ ## observation ## ]]\nA door."
    assert [part.name for part in split_message(sent, REGIONS)] == ["task", "observation"]


def test_a_system_message_has_instruction_fields_form_and_examples():
    parts = [
        Part("instruction", "You act.\n\n"),
        Part("about", "About: A house.\n\n"),
        Part("form_of_the_answer", "The action is one action.\nAnswer in this form:\nThought: ...\nAction: ...\n\n"),
        Part("examples", "Examples:\n\nExample 1\nTask: wait"),
    ]
    assert split_system("".join(part.text for part in parts), REGIONS) == parts


def test_a_message_that_is_sent_again_stands_once():
    table = MessageTable(["task"])
    first = [{"role": "system", "content": "You act."}, {"role": "user", "content": "Task: wait"}]
    second = [*first, {"role": "assistant", "content": "Task: no label"}]
    numbers = [
        table.add_request(Call(1, 0, 1, "actor", {"model": "m", "parameters": {}, "messages": sent}))
        for sent in (first, second)
    ]
    assert numbers == [[0, 1], [0, 1, 2]]
    assert table.messages == [
        ("system", [Part("instruction", "You act.")]),
        ("user", [Part("task", "Task: wait")]),
        ("assistant", [Part("", "Task: no label")]),
    ]


def test_a_page_without_a_log_holds_no_prompt(rsso, tmp_path):  # noqa: F811
    """Logs that Reflexion's own code wrote hold no requests."""
    write_logs(tmp_path / "logs", "1s", "ss")
    assert rsso("report", "logs", "--html", "page.html")[0] == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    chunks = re.findall(r'id="unit-\d+">([^<]*)<', page)
    assert chunks
    for chunk in chunks:
        data = json.loads(gzip.decompress(base64.b64decode(chunk)))
        assert (data["messages"], data["why_not"]) == ([], "logs of Reflexion hold none")
