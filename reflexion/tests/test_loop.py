"""The loop, event by event: what is captured, proposed, recalled, verified and made a rule."""

import json
import os
import subprocess
import time
from pathlib import Path

import payloads
import pytest
from conftest import CASES, DAY, NOW, make_entry, put, read_entries
from reflexion.commands import are_near, normalize_command
from reflexion.entry import HALF_LIFE, dump_entry, format_time, read_entry
from reflexion.recall import count_tokens
from reflexion.store import Store
from reflexion.triggers import normalize_trigger
from reflexion.verbs import list_faults

MISSING = 'npm error Missing script: "build"'
HOSTS = {"claude-code": 2, "codex": 2, "gemini": 2, "cursor": 2, "opencode": 1}


class Shell:
    """A session of an agent: what it runs, and what it is told."""

    def __init__(self, tell, agent="claude-code", session="s"):
        self.tell, self.agent, self.session, self.now = tell, agent, session, NOW

    def _tell(self, payload):
        self.now += 1
        fields = ("session_id", "conversation_id")
        return self.tell(self.agent, {**payload, **dict.fromkeys(fields, self.session)}, self.now)

    def run(self, command, code=0, output=""):
        return self._tell(payloads.VERSIONS[f"{self.agent} {HOSTS[self.agent]}"](command, code, output))

    def before(self, command):
        return self._tell(payloads.BEFORE[self.agent](command))

    def prompt(self, text):
        return self._tell(payloads.PROMPTS[self.agent](text))


@pytest.mark.parametrize("agent", HOSTS)
def test_the_whole_way_with_every_host(tell, project, agent):
    one = Shell(tell, agent, "one")
    assert one.run("npm run build", 1, MISSING) == ""
    one.run("pnpm run build")
    (entry,) = read_entries(project)
    assert (entry["type"], entry["trigger"], entry["context"]) == ("error", MISSING, "npm run build")
    assert (entry["resolution"], entry["resolved_by"], entry["agent"]) == ("use `pnpm run build`", "proposed", agent)
    two = Shell(tell, agent, "two")
    told = [two.prompt("Please do a build with npm"), two.before("npm run build 2>&1 | tail -20")]
    told += [two.run("pnpm run build")]
    assert any("pnpm run build" in block for block in told), told
    assert all(count_tokens(block) <= 80 for block in told)
    (entry,) = read_entries(project)
    assert (entry["worked"], entry["occurrences"], entry["failed"]) == (1, 2, 0)
    assert entry["confidence"] > 0.5


def write_transcript(path: Path, *outputs: tuple[str, object], kind: str = "function_call_output") -> None:
    """A session file of Codex; what it says of a call comes after the hook of that call has ended."""
    items = [{"type": kind, "call_id": call, "output": output} for call, output in outputs]
    lines = [json.dumps({"timestamp": "t", "type": "response_item", "payload": item}) for item in items]
    path.write_text("\n".join(["{broken call_output call_1", *lines, ""]), encoding="utf-8")


@pytest.mark.parametrize(
    ("said", "captured"),
    [
        (payloads.write_codex_head(1, MISSING), True),
        (json.dumps({"output": MISSING, "metadata": {"exit_code": 1}}), True),
        (payloads.write_codex_head(0, MISSING), True),  # the 0 is of `| tail`
        (f"{MISSING}\nProcess exited with code 1", True),  # by the words of the output
        ("built\nProcess exited with code 1", False),
        (None, False),
    ],
)
def test_a_codex_that_tells_hooks_no_exit_code_is_read_from_its_transcript(tell, project, tmp_path, said, captured):
    """Newer builds: the response is the bare output, and the transcript has its head once the hook is over."""
    path = tmp_path / "rollout.jsonl"
    path.touch()

    def codex(payload, number):
        return tell("codex", {**payload, "session_id": "s", "transcript_path": str(path)}, NOW + number)

    assert codex(payloads.after_codex(f"cd web && TOKEN={payloads.SECRET} npm run build | tail", MISSING), 1) == ""
    assert read_entries(project) == []
    write_transcript(path, ("call_0", payloads.write_codex_head(3, "other")), ("call_1", said))
    codex(payloads.BEFORE["codex"]("pnpm run build"), 2)
    assert [(e["trigger"], e["context"]) for e in read_entries(project)] == [(MISSING, "npm run build")] * captured
    codex({**payloads.after_codex("pnpm run build", "built"), "tool_use_id": "call_2"}, 3)
    write_transcript(path, ("call_1", said), ("call_2", payloads.write_codex_head(0, "built")))
    codex(payloads.PROMPTS["codex"]("go on"), 4)
    learnt = [(entry["resolution"], entry["occurrences"]) for entry in read_entries(project)]
    assert learnt == [("use `pnpm run build`", 1)] * captured
    for file in (tmp_path / "state").rglob("*"):
        assert not file.is_file() or payloads.SECRET.encode() not in file.read_bytes()


@pytest.mark.parametrize(("commands", "well"), [(1, True), (6, False)])
def test_doctor_names_a_host_that_never_says_how_commands_ended(tell, project, commands, well):
    Shell(tell).run("npm run build", 1, MISSING)
    for number in range(commands):
        tell("codex", {**payloads.after_codex("make", "fatal: failed"), "tool_use_id": f"call_{number}"})
    assert len(read_entries(project)) == 1
    with Store(str(project)) as store:
        assert any("how they ended" in fault for fault in list_faults(store, NOW)) is not well


def test_nothing_is_told_and_nothing_made_without_a_reason(tell, project):
    shell = Shell(tell)
    assert shell.prompt("build npm") == ""
    assert shell.before("npm run build") == ""
    assert shell.run("npm test") == ""
    assert not (project / ".reflexion").exists()
    shell.run("npm run build", 1, MISSING)
    assert (project / ".reflexion/.gitignore").read_text() == "*\n"
    assert shell.prompt("rename the button of the login page") == ""


@pytest.mark.parametrize(("failed", "then", "resolution"), CASES["proposals"])
def test_what_helped_is_proposed(tell, project, failed, then, resolution):
    files = "web/a sub/a src/a app.py x.py a.py run.sh env/bin/activate tests/test_a.py tests/test_b.py tools/check.py"
    for name in files.split():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    shell = Shell(tell)
    shell.run(failed, 1, f"error: it does not work: {failed}")
    for command in then:
        shell.run(command.replace("PROJECT", str(project)))
    assert read_entries(project)[0]["resolution"] == resolution


@pytest.mark.parametrize(("name", "steps", "expected"), CASES["scenarios"])
def test_what_is_told_and_counted(tell, project, name, steps, expected):
    """A step is a session, what it does, a text, what it is told (null: anything), the exit code and the output."""
    (project / "app.py").touch()
    for session, kind, text, told, *end in steps:
        block = getattr(Shell(tell, session=session), kind)(text, *end)
        assert told is None or (told in block and bool(told) is bool(block)), (text, block)
    (entry,) = read_entries(project)
    assert {key: entry[key] for key in expected} == expected, name


def test_confidence_fades_and_an_entry_with_it(tell, project):
    put(project, make_entry(last_seen=format_time(NOW), verified_at=""))
    late = Shell(tell, session="late")
    late.now = NOW + 2 * HALF_LIFE
    assert "pnpm" in late.before("npm run build")
    late.now = NOW + 3 * HALF_LIFE
    assert late.before("npm run build") == ""


@pytest.mark.parametrize(("line", "normal"), CASES["triggers"])
def test_what_changes_is_out_of_a_trigger(line, normal):
    assert normalize_trigger(line) == normal


@pytest.mark.parametrize(("command", "normal"), CASES["commands"])
def test_commands_are_known_again(command, normal):
    assert normalize_command(command, "/project") == normal


@pytest.mark.parametrize(("one", "other", "near"), CASES["near"])
def test_which_commands_explain_each_other(one, other, near):
    assert are_near(one, other) is near


class Repository(Shell):
    """A session that works in a real repository, with real edits, in real time."""

    def __init__(self, tell, project, session="s"):
        super().__init__(tell, session=session)
        self.project = project
        self.now = time.time()
        subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)

    def edit(self, name, text="right"):
        time.sleep(0.02)
        (self.project / name).write_text(text)
        time.sleep(0.02)

    def run(self, command, code=0, output="", writes=""):
        self.now = time.time() - 1
        self.before(command)
        if writes:
            self.edit(writes)
        self.now = time.time() - 1
        return super().run(command, code, output)


def test_failures_that_edits_mended_teach_and_confirm_nothing(tell, project):
    """The most usual loop: the tests fail in five ways, each mended by an edit, and pass."""
    shell = Repository(tell, project)
    bugs = {f"part{n}.py": f"AssertionError: sum of {word}" for n, word in enumerate(("apples", "pears", "plums"))}
    for name, line in bugs.items():
        shell.edit(name, "wrong")
        assert shell.run("pytest -q", 1, line) == ""
        shell.edit(name, "right")
    shell.run("pytest -q")
    entries = read_entries(project)
    assert {e["trigger"]: e["resolution"] for e in entries} == dict.fromkeys(bugs.values(), "")
    first = json.loads((file := next((project / ".reflexion/entries").iterdir())).read_text())
    file.write_text(json.dumps({**first, "resolution": "run `make clean`"}))
    again = Repository(tell, project, "two")
    assert "make clean" in again.prompt(f"run pytest, the {first['trigger']}")
    again.run("pytest -q", 1, first["trigger"])
    again.edit("part0.py", "right again")
    again.run("pytest -q")
    assert {e["worked"] for e in read_entries(project)} == {0}


@pytest.mark.parametrize(
    ("between", "resolution"),
    [
        ([("ls", "")], ""),
        ([("", "a.py"), ("npm ci", "")], ""),
        ([("sed -i s/x/y/ a.py", "a.py"), ("npm ci", "")], ""),
        ([("npm ci", "")], "first run `npm ci`"),
        ([("make deps", "deps.lock")], "first run `make deps`"),  # what a command writes is no edit
    ],
)
def test_where_files_were_edited_nothing_is_said(tell, project, between, resolution):
    shell = Repository(tell, project)
    shell.run("npm test", 1, "AssertionError: sum of apples")
    for command, file in between:
        shell.run(command, writes=file) if command else shell.edit(file)
    shell.run("npm test")
    assert read_entries(project)[0]["resolution"] == resolution


def test_a_success_confirms_only_what_failed_before_it(tell, project):
    """Two failures of one command, one known: the success after the other one says nothing of it."""
    texts = {"context": "npm test", "trigger": "error: no lock file", "resolution": "first run `npm ci`"}
    put(project, make_entry(1, **texts, keywords=(), occurrences=1))
    for session, output, counted in (("a", "AssertionError: sum", (0, 1)), ("b", "error: no lock file", (1, 3))):
        shell = Shell(tell, session=session)
        assert "npm ci" in shell.before("npm test")
        shell.run("npm test", 1, output)
        shell.run("npm ci")
        shell.run("npm test")
        known = next(each for each in read_entries(project) if each["id"].endswith("a01"))
        assert (known["worked"], known["occurrences"], known["failed"]) == (*counted, 0)


@pytest.mark.parametrize("kind", ["correction", "insight", "pattern"])
def test_what_was_understood_is_recalled_without_a_resolution(tell, project, typed, kind):
    typed("capture", "--type", kind, "--trigger", "The database migrations need the staging tunnel")
    shell, needs = Shell(tell), '"The database migrations need the staging tunnel"'
    assert f"{kind}: {needs}" in shell.prompt("run the database migrations")
    for times in (2, 3):
        assert f"(seen {times}x)" in typed("capture", "--type", kind, "--trigger", needs.strip('"'))[1]
    (entry,) = read_entries(project)
    assert "first seen less than 24 hours ago" in typed("promote", entry["id"])[1]
    start = {"hook_event_name": "SessionStart", "session_id": "later", "cwd": str(project)}
    assert f"one rule more, from {entry['id']}" in tell("claude-code", start, time.time() + 2 * DAY)
    assert "- The database migrations need the staging tunnel. (seen 3x" in (project / "AGENTS.md").read_text()


def test_capture_says_what_an_error_lacks(typed, project):
    code, printed = typed("capture", "--trigger", "error: no tunnel", "--context", "make migrate")
    (file,) = (project / ".reflexion/entries").iterdir()
    assert code == 0
    assert f"not recalled until .reflexion/entries/{file.name} says" in printed
    file.write_text(file.read_text().replace('"resolution": ""', '"resolution": "open the tunnel"'))
    assert "open the tunnel" in typed("recall", "make migrate has no tunnel")[1]


def test_an_entry_that_was_written_by_hand_is_recalled(tell, project):
    """Beside others, with the fewest fields, and after an index was made; and gone when its file is."""
    shell = Shell(tell)
    shell.run("npm run build", 1, MISSING)
    file = project / ".reflexion/entries/RFX-20260320-abc.json"
    file.write_text(
        '{"id": "RFX-20260320-abc", "type": "pattern", "trigger": "deploy the shop", "resolution": "ask ops first"}'
    )
    assert "ask ops first" in shell.prompt("please deploy the shop")
    index = (project / ".reflexion/index.txt").read_text()
    assert "\ndeploy\tRFX-20260320-abc\n" in index
    assert "\n$ npm run build\tRFX-" in index
    file.write_text(file.read_text().replace("ask ops first", "use the new way"))
    assert "use the new way" in Shell(tell, session="two").prompt("deploy the shop")
    file.write_text(file.read_text().replace("deploy the shop", "publish the newsletter"))
    shell.run("make", 2, "make: *** No rule to make target 'a'.")  # writes the index: the edit is older than that
    assert shell.prompt("publish the newsletter") == ""
    shell.tell("claude-code", {"hook_event_name": "SessionStart", "session_id": "three", "cwd": str(project)})
    assert "use the new way" in Shell(tell, session="three").prompt("publish the newsletter")
    file.unlink()
    assert Shell(tell, session="four").prompt("publish the newsletter") == ""


def test_entries_of_the_original_loop_are_read():
    """As its page shows one: no confidence, days without a time."""
    seed = {"id": "RFX-20260331-a7f", "type": "error", "trigger": MISSING, "context": "npm run build", "resolution": "",
            "keywords": ["npm", "build", "missing", "script"], "occurrences": 1, "first_seen": "2026-03-31",
            "last_seen": "2026-03-31", "promoted": False, "cwd": "/home/user/project", "mine": [1]}  # fmt: skip
    entry = read_entry(seed)
    assert entry is not None
    data = json.loads(json.dumps(dump_entry(entry)))
    assert {name: data[name] for name in seed} == seed
