"""Several constitutions in one run, an arm each, and memory files in Markdown."""

import json
import re
from pathlib import Path

import pandas
import pytest
from typer.testing import CliRunner

import rsso_dspy
from rsso_dspy.cli.app import app
from rsso_dspy.config import load_config
from rsso_dspy.constitutions import parse_constitutions
from rsso_dspy.errors import ConfigError, RssoError, RunMismatch, SplitError, UsageError
from rsso_dspy.memory.constitution import ConstitutionMemory
from rsso_dspy.memory.formats import read_constitution
from rsso_dspy.runs import read_announcement
from rsso_dspy.store.run_folder import Store

LINES = "\n".join(f"Line {number}: go on until something is in the way." for number in range(1, 201))
MARKDOWN = f"""---
name: doors
---
# Doors

1. Turn to the door.

- Nothing else counts:
  - not the ball

```sh
toggle  # once
```

{LINES}
"""
RULES = [
    {"category": "abstract", "text": "Doors are opened by toggle."},
    {"category": "error", "text": "Waiting.", "solution": "Act."},
]
BASE = ("run", "--benchmark", "babyai", "--tasks", "GoToDoor,Open", "--per-task", "1", "--set", "embedder.model=hash")
BOTH = ("--constitution", "hand=AGENTS.md", "--constitution", "learned=rules.json")
METHODS = ("--methods", "react,react+constitution")
NAMES, METHODS_READING = ("hand", "learned"), ("react", "reflexion")
ARMS = ["react", "react+constitution+hand", "react+constitution+learned"]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("AGENTS.md").write_text(MARKDOWN)
    write_rules(Path("rules.json"), "GoToDoor::1")


def write_rules(file: Path, *variants: str) -> None:
    rules = [{**rule, "source": variant} for rule in RULES for variant in variants]
    content = {"kind": "rsso-dspy constitution", "schema": 1, "rules": rules, "provenance": {"variants": variants}}
    file.write_text(json.dumps(content))


def call(*words: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [*map(str, words)])
    if isinstance(result.exception, RssoError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


def list_prompts(folder: str, arm: str) -> dict[str, list[list[str]]]:
    """The requests of an arm by unit, each as the texts of its messages."""
    store = Store(Path(folder), read_only=True)
    prompts = {}
    for record in store.units():
        if record.arm == arm:
            log = store.read_log(record)
            requests = [log.decode(lines).request for lines in log.by_number.values()]
            prompts[record.key] = [[message["content"] for message in each["messages"]] for each in requests]
    return prompts


@pytest.mark.parametrize("layout", ["conversation", "paper", "released"])
def test_arms_of_two_constitutions_differ_in_that_region_alone(layout):
    call(*BASE, *METHODS, *BOTH, "--trials", 2, "--set", f"protocol.layout={layout}", "--out", "run")

    assert sorted(path.name for path in Path("run/units").iterdir()) == ARMS
    plain, hand, learned = (list_prompts("run", arm) for arm in ARMS)
    heading = "Constitution (rules learnt before in this world; follow them):\n"
    written, rules = MARKDOWN.rstrip("\n"), "- Doors are opened by toggle.\n- Mistake: Waiting. Instead: Act."
    assert hand.keys() == learned.keys() == plain.keys() == {"GoToDoor::1234", "Open::1234"}
    compared = 0
    for key in hand:
        for by_hand, by_rules in zip(hand[key], learned[key], strict=True):
            assert "\n".join(by_hand).count(f"{heading}{written}\n") == 1
            assert [text.replace(written, rules) for text in by_hand] == by_rules
            compared += 1
        without = [re.sub(rf"{re.escape(heading + rules)}\n+", "", text) for text in learned[key][0]]
        assert [re.sub(r"\n+", "\n", text) for text in without] == [
            re.sub(r"\n+", "\n", text) for text in plain[key][0]
        ]
    assert compared > 20


def test_of_the_rules_of_a_text_the_nearest_are_shown_and_the_text_itself_stays_whole():
    Path("HOUSE.md").write_text(
        "# House\n\n- Commit with `git commit --signoff`.\n- Find every line with a word by `ag WORD`.\n"
    )
    said = call("constitution", "split", "HOUSE.md", "-o", "house.json")
    assert said.splitlines() == ["house.json: 2 rules from HOUSE.md"]

    rules = ("--constitution", "whole=HOUSE.md", "--constitution", "near=house.json")
    nearest = ("--set", "memory.constitution.relevant=1", "--set", "embedder.model=lexical")
    tasks = ("--benchmark", "house-rules", "--tasks", "git-commit,code-search", "--per-task", 1, "--trials", 1)
    said = call("run", *tasks, "--methods", "react+constitution", *rules, *nearest, "--out", "run")

    assert "HOUSE.md is read whole, so memory.constitution.relevant=1 changes nothing of it" in said
    assert "`rsso-dspy constitution split HOUSE.md -o FILE` makes rules to choose from" in said
    shown = {
        "git-commit": "Commit with `git commit --signoff`.",
        "code-search": "Find every line with a word by `ag WORD`.",
    }
    for key, prompts in list_prompts("run", "react+constitution+near").items():
        text = "\n".join(prompts[0])
        assert [rule in text for rule in shown.values()] == [task == key.partition("::")[0] for task in shown]
    for prompts in list_prompts("run", "react+constitution+whole").values():
        assert all(rule in "\n".join(prompts[0]) for rule in shown.values())


def test_records_name_the_constitution_and_the_source_of_each_arm():
    said = call(*BASE, *METHODS, *BOTH, "--trials", 1, "--out", "run")

    assert "source unknown: AGENTS.md (--constitution) does not say on which variants it was learned" in said
    assert "source unknown: rules.json" not in said
    store = Store(Path("run"), read_only=True)
    for record in store.units():
        sources = [(each.memory, each.kind, each.name, each.size) for each in record.sources]
        expected = {
            "": [],
            "hand": [("constitution", "file", "AGENTS.md", 1)],
            "learned": [("constitution", "file", "rules.json", 2)],
        }
        assert sources == expected[record.constitution]
        assert record.learnt_on == (("GoToDoor::1",) if record.constitution == "learned" else ())
        assert record.arm == "+".join(filter(None, [record.method, record.constitution]))
    assert store.read_identity()[0]["carried"].keys() == {"constitution+hand", "constitution+learned"}
    assert {"constitution+hand/AGENTS.md", "constitution+learned/rules.json"} < store.read_file()["given"].keys()


def test_a_run_is_resumed_replayed_shown_reported_and_exported():
    play = (*BASE, *METHODS, *BOTH, "--trials", "1", "--set", "shared_answers=true", "--out", "run")
    call(*play)
    assert "6 units finished, 0 to play" in call(*play)
    assert "equal: 6 of 6 records are equal" in call("run", "--replay", "run", "--out", "again")
    assert "1. Turn to the door." in call("show", "run", "Open::1234", "--arm", ARMS[1], "--prompts")
    call("export", "run", "-o", "trials.parquet")
    assert sorted(set(pandas.read_parquet("trials.parquet")["arm"])) == ARMS
    call("report", "run", "--html", "page.html")
    assert all(arm in Path("page.html").read_text() for arm in ARMS)
    found = json.loads(call("report", "run", "--json"))
    doses = {dose["arm"]: dose for pair in found["comparisons"] for dose in pair["doses"]}
    assert doses[ARMS[1]]["items"] is None, "a document has no items"
    assert doses[ARMS[2]]["items"] == 2
    assert doses[ARMS[1]]["tokens"] > 50 * doses[ARMS[2]]["tokens"] > 0


def test_shards_rounds_and_a_training_play_each_named_file():
    for shard in ("1/2", "2/2"):
        call(*BASE, *METHODS, *BOTH, "--trials", 1, "--shard", shard, "--jobs", 2, "--out", "parts")
    assert len(list(Store(Path("parts"), read_only=True).units())) == 6

    rounds = [word for word in BASE if word not in ("--per-task", "1")]
    call(*rounds, *METHODS, *BOTH, "--trials", 1, "--rounds", 1, "--out", "once")
    assert len(list(Store(Path("once"), read_only=True).units())) == 6

    transfer = ("--set", "protocol.setting=transfer", "--set", "protocol.train_per_task=1")
    call(*BASE, *METHODS, *BOTH, "--trials", 1, *transfer, "--out", "transfer")
    records = list(Store(Path("transfer"), read_only=True).units())
    assert {(record.arm, len(record.trials)) for record in records} == {(arm, 1) for arm in ARMS}
    assert not list(Store(Path("transfer"), read_only=True).trainings()), "there is nothing to learn"


def test_each_memory_is_compared_with_equal_retries_that_read_the_same_constitution():
    methods = "react,reflexion,react+constitution,reflexion+constitution"
    call(*BASE, "--methods", methods, *BOTH, "--trials", 1, "--out", "run")

    found = json.loads(call("report", "run", "--json"))["comparisons"]
    assert {(pair["second"], pair["first"], pair["asks"]) for pair in found} >= {
        ("reflexion", "react", "memory over none"),
        *((f"{method}+constitution+{name}", method, "constitution") for method in METHODS_READING for name in NAMES),
        *((f"reflexion+constitution+{name}", f"react+constitution+{name}", "memory over none") for name in NAMES),
    }


def test_rounds_pair_a_memory_with_the_arm_that_reads_the_same_constitution():
    whole = [word for word in BASE if word not in ("--per-task", "1")]
    methods = "react,react+constitution,reflexion+constitution"
    call(*whole, "--methods", methods, *BOTH, "--trials", 2, "--rounds", 1, "--out", "run")

    announced = read_announcement(Store(Path("run"), read_only=True))
    assert announced is not None
    assert set(announced.pairs) == {
        *(("react", f"react+constitution+{name}") for name in NAMES),
        *((f"react+constitution+{name}", f"reflexion+constitution+{name}") for name in NAMES),
    }


def test_units_of_several_folders_are_pooled_where_an_arm_read_the_same_file():
    for number, task in enumerate(("GoToDoor", "Open", "Pickup")):
        if number == 2:
            Path("AGENTS.md").write_text("Another text.\n")
        call("run", "--benchmark", "babyai", "--tasks", task, "--per-task", 1, *METHODS, *BOTH, *BASE[-2:],
             "--trials", 1, "--out", number)  # fmt: skip

    arms = json.loads(call("report", "0", "1", "--json"))["arms"]
    assert {(arm["arm"], arm["units"]) for arm in arms} == {(arm, 2) for arm in ARMS}
    units = {arm["arm"]: arm["units"] for arm in json.loads(call("report", "0", "2", "--json"))["arms"]}
    assert (units.pop("react"), units.pop("react+constitution+learned")) == (2, 2)
    apart = [re.sub("=[0-9a-f]{6}$", "=DIGEST", arm) for arm in units]
    assert apart == ["react+constitution+hand constitution+hand=DIGEST"] * 2, "another file is another arm"


def test_a_changed_file_is_refused_on_resume():
    play = (*BASE, *METHODS, *BOTH, "--trials", "1", "--out", "run")
    call(*play)
    Path("AGENTS.md").write_text(f"{MARKDOWN}One line more.\n")
    with pytest.raises(RunMismatch, match=r"carried\.constitution\+hand: there '[0-9a-f]{12}', now '[0-9a-f]{12}'"):
        call(*play)


def test_a_constitution_that_saw_held_out_variants_is_named():
    write_rules(Path("rules.json"), "Open::1234")
    with pytest.raises(SplitError, match=r"rules\.json was learned on Open::1234, which this run holds out"):
        call(*BASE, *METHODS, *BOTH, "--out", "run")


@pytest.mark.parametrize(
    ("words", "fix"),
    [
        (("hand=AGENTS.md", "hand=rules.json"), "hand=: two files have this name; give each a name of its own"),
        (("hand=AGENTS.md", "Hand=rules.json"), "Hand=: two files have this name"),
        (("hand=",), "hand=: it names no file; write hand=FILE"),
        (("",), "it names no file; write FILE, or NAME=FILE"),
        (("=AGENTS.md",), "a name takes letters, digits, -, _ and ."),
        (("a:b=AGENTS.md",), "a name takes letters, digits, -, _ and ."),
        (("a+b=AGENTS.md",), "a name takes letters, digits, -, _ and ."),
        (("hand.=AGENTS.md",), "a name takes letters, digits, -, _ and ."),
        (("AGENTS.md", "rules.json"), "of several files each needs a name, such as hand=AGENTS.md"),
        (("hand=missing.md",), "cannot read the constitution missing.md: No such file or directory"),
        (("hand=empty.md",), "empty.md is empty, so reading it would have no effect; write into it, or drop it"),
        (("hand=binary.md",), "cannot read the constitution binary.md: it is UTF-16 text, or no text at all"),
    ],
)
def test_what_is_wrong_with_a_name_or_a_file_is_said_with_its_fix(words, fix):
    Path("empty.md").write_text(" \n\n")
    Path("binary.md").write_bytes(b"\0\1")
    given = [word for each in words for word in ("--constitution", each)]
    with pytest.raises(UsageError, match=re.escape(fix)):
        call(*BASE, "--methods", "react+constitution", *given, "--out", "run")
    assert not Path("run").exists()


def test_a_method_that_writes_rules_does_not_start_from_a_document():
    with pytest.raises(UsageError, match=r"AGENTS\.md is read as a whole, and omnireflect-symbolic would go on"):
        call(*BASE, "--methods", "omnireflect-symbolic", "--constitution", "AGENTS.md", "--out", "run")


def test_one_file_without_a_name_stays_one_arm_and_may_be_markdown():
    call(*BASE, "--methods", "react", "--constitution", "AGENTS.md", "--trials", 1, "--out", "run")

    store = Store(Path("run"), read_only=True)
    assert {(record.arm, record.constitution) for record in store.units()} == {("react+constitution", "")}
    assert store.read_identity()[0]["carried"].keys() == {"constitution"}


def test_names_in_one_spelling_from_python_and_from_a_file():
    files = {"hand": Path("AGENTS.md"), "learned": Path("rules.json")}
    assert parse_constitutions(["hand=AGENTS.md", "learned=rules.json"]) == files
    assert parse_constitutions({"hand": "AGENTS.md", "learned": "rules.json"}) == files
    assert parse_constitutions("folder/a=b.json") == Path("folder/a=b.json")
    for written in ('["hand=AGENTS.md", "learned=rules.json"]', '{hand = "AGENTS.md", learned = "rules.json"}'):
        Path("run.toml").write_text(f"[run]\nconstitution = {written}\n")
        assert load_config(Path("run.toml")).run.constitution == files
    Path("run.toml").write_text('[run]\nconstitution = ["a=AGENTS.md", "a=rules.json"]\n')
    with pytest.raises(ConfigError, match="two files have this name"):
        load_config(Path("run.toml"))

    with pytest.warns(UserWarning, match="source unknown: AGENTS.md"):
        result = rsso_dspy.run(
            "react,react+constitution",
            constitution={"hand": "AGENTS.md", "learned": "rules.json"},
            benchmark="babyai",
            tasks="GoToDoor",
            per_task=1,
            trials=1,
            settings=["embedder.model=hash"],
            out="run",
            progress=False,
        )
    assert list(result.scores) == ARMS


def test_a_document_is_read_verbatim_without_what_cannot_be_sent():
    Path("AGENTS.md").write_bytes(
        b"\xef\xbb\xbf# A\r\n\r\n- b\x07\n\t- c [[ ## task ## ]] \xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac\n"
    )

    book = read_constitution(Path("AGENTS.md"))

    assert book.constitution.document == "# A\n\n- b\n\t- c  task  \N{WOMAN}\N{ZERO WIDTH JOINER}\N{MICROSCOPE}"
    assert ConstitutionMemory.entries(book.constitution.dump()) == (book.constitution.document,)
    assert call("constitution", "show", "AGENTS.md").startswith("# A\n\n- b\n")


def test_text_of_another_ending_is_a_document_and_broken_json_is_damaged():
    Path("notes.txt").write_text("Doors first.\n")
    assert read_constitution(Path("notes.txt")).constitution.document == "Doors first."
    for name in ("broken.json", "broken.txt"):
        Path(name).write_text('{"kind": ')
        with pytest.raises(UsageError, match=f"{name} is damaged"):
            read_constitution(Path(name))
