"""The loop, event by event: what is captured, proposed, recalled, verified and made a rule."""

import json
import os
import subprocess
import time
from pathlib import Path

import payloads
import pytest
from conftest import NOW, make_entry, put, read_entries
from reflexion.commands import are_near, normalize_command
from reflexion.entry import FADED, HALF_LIFE, dump_entry, read_entry
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
    told = [
        two.prompt("Please do a build with npm"),
        two.before("npm run build 2>&1 | tail -20"),
        two.run("pnpm run build"),
    ]
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
        (payloads.write_codex_head(0, MISSING), False),
        (f"{MISSING}\nProcess exited with code 1", False),
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
    after = {**payloads.after_codex("pnpm run build", "built"), "tool_use_id": "call_2"}
    codex(after, 3)
    write_transcript(path, ("call_1", said), ("call_2", payloads.write_codex_head(0, "built")))
    codex(payloads.PROMPTS["codex"]("go on"), 4)
    assert [(e["resolution"], e["occurrences"]) for e in read_entries(project)] == [
        ("use `pnpm run build`", 1)
    ] * captured
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


@pytest.mark.parametrize(
    ("failed", "then", "resolution"),
    [
        ("npm run build", ["pnpm run build"], "use `pnpm run build`"),
        ("git psuh", ["git push"], "use `git push`"),
        ("pytest test/", ["ls", "pytest tests/"], "use `pytest tests/`"),
        ("python app.py", ["pip install flask", "python app.py"], ""),
        ("make", ["./configure", "ls", "make deps", "make"], "first run `./configure`, then `make deps`"),
        ("pytest -q", ["pytest -q"], ""),
        ("cd web && npm run build 2>&1 | tail", ["npm ci", "FOO=1 npm run build"], "first run `npm ci`, then `FOO=*** npm run build`"),
        ("apt-get install jq", ["sudo apt-get install jq"], "use `sudo apt-get install jq`"),
        ("npm test", ["cd PROJECT/sub && npm test 2>/dev/null"], "use `cd ./sub && npm test`"),
        ("npm test", ["cd sub", "npm test"], "first run `cd sub`"),
        ("npm publish", [f"TOKEN={payloads.SECRET} npm publish"], "use `TOKEN=*** npm publish`"),
        ("pytest -q", [". env/bin/activate && pytest -q"], "use `. env/bin/activate && pytest -q`"),
        ("cd web && npm test", ["npm test"], ""),
        ("npm test", ["cd PROJECT && npm test"], ""),
        ("curl localhost:8000", ["curl localhost:8001"], ""),
        ("npm run build", ["npm run build 2>&1 | tail -5"], ""),
        ("npm run build", ["set -o pipefail; npm run build | tail -5"], "use `set -o pipefail; npm run build`"),
        ("git push", ["git push --force origin main"], ""),
        ("git push", ["git push -u origin HEAD"], "use `git push -u origin HEAD`"),
        ("git push --force origin mian", ["git push --force origin main"], ""),
        ("rm -i build/a", ["sudo rm -rf build"], ""),
        ("npm ci", ["rm -rf node_modules", "npm ci"], ""),
        ("git pull", ["git reset --hard", "git pull"], ""),
        ("./run.sh", ["chmod 777 run.sh", "./run.sh"], ""),
        ("git commit -m x", ["git commit --no-verify -m x"], ""),
        ("pytest tests/test_a.py", ["pytest tests/test_b.py"], ""),
        ("pytest -q", ["pytest -q -k fast"], ""),
        ("pytest", ["pip install pytest"], ""),
        ("npm install left-pad", ["npm install right-pad"], ""),
        ("npm install lodahs", ["npm install lodash"], ""),
        ("cat conf.json", ["touch conf.json"], ""),
        ("python test/check.py", ["python tools/check.py"], "use `python tools/check.py`"),
        ("python x.py", ["cat > x.py <<EOF\nprint(1)\nEOF", "python x.py"], ""),
        ("make", ["./configure --with=" + "x" * 300, "make"], "first run `./configure --with=***`"),
        ("cargo build", ["docker build ."], ""),
    ],
)  # fmt: skip
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


def test_a_recall_that_was_applied_and_failed_is_counted(tell, project):
    shell = Shell(tell)
    shell.run("npm run build", 1, MISSING)
    shell.run("yarn run build")
    again = Shell(tell, session="two")
    assert "yarn" in again.before("npm run build")
    again.run("npm run build", 1, MISSING)  # what it was about to run: nothing was applied yet
    assert read_entries(project)[0]["failed"] == 0
    again.run("yarn run build")
    assert read_entries(project)[0]["worked"] == 1


FLASK = "ModuleNotFoundError: No module named 'flask'"


def learn_flask(tell, project):
    """A session that found out what `python app.py` needs."""
    (project / "app.py").touch()
    shell = Shell(tell)
    shell.run("python app.py", 1, FLASK)
    shell.run("pip install flask")
    shell.run("python app.py")


@pytest.mark.parametrize(("command", "worked"), [("apt-get install jq", 0), ("cd x && sudo apt-get install jq", 1)])
def test_what_stands_before_a_command_is_verified_with_it(tell, project, command, worked):
    shell = Shell(tell)
    shell.run("apt-get install jq", 100, "E: Could not open lock file")
    shell.run("sudo apt-get install jq")
    again = Shell(tell, session="two")
    assert "sudo apt-get install" in again.prompt("install jq with apt-get")
    assert again.before("sudo apt-get install jq") == ""  # it does that already
    assert "sudo apt-get" in again.before("apt-get install jq")
    again.run(command)
    assert read_entries(project)[0]["worked"] == worked


def test_what_was_done_between_two_recalls_counts(tell, project):
    """A host that asks before every command recalls the entry again, behind what it said to run first."""
    learn_flask(tell, project)
    again = Shell(tell, session="two")
    assert again.prompt("python app.py needs flask")
    again.run("pip install flask")
    assert again.before("python app.py")
    again.run("python app.py")
    assert read_entries(project)[0]["worked"] == 1


def test_a_resolution_that_does_not_help_loses_confidence(tell, project):
    learn_flask(tell, project)
    start = read_entries(project)[0]["confidence"]
    again = Shell(tell, session="two")
    assert "pip install flask" in again.before("python app.py")
    again.run("pip install flask")
    again.run("python app.py", 1, FLASK)
    entry = read_entries(project)[0]
    assert (entry["failed"], entry["review"]) == (1, True)
    assert entry["confidence"] == pytest.approx(start / 2)
    assert "did not work" in entry["notes"][0]


def test_a_failure_that_is_known_is_told_with_what_helped(tell, project):
    learn_flask(tell, project)
    told = Shell(tell, session="two").run("python app.py --debug", 1, FLASK)
    assert "pip install flask" in told


def test_the_same_trigger_counts_up_whatever_changes_in_it(tell, project):
    shell = Shell(tell)
    for number in range(3):
        shell.run(
            f"curl http://localhost:{8000 + number}/",
            7,
            f"curl: (7) Failed to connect to localhost port {8000 + number} after {number} ms",
        )
    (entry,) = read_entries(project)
    assert entry["occurrences"] == 3


def test_a_session_is_not_told_the_same_over_and_over(tell):
    shell = Shell(tell)
    shell.run("npm run build", 1, MISSING)
    shell.run("pnpm run build")
    again = Shell(tell, session="two")
    assert [bool(again.prompt("npm build")) for _ in range(3)] == [True, False, False]
    assert sum(bool(again.before("npm run build")) for _ in range(6)) == 2


def test_confidence_fades_and_an_entry_with_it(tell, project):
    shell = Shell(tell)
    shell.run("npm run build", 1, MISSING)
    shell.run("pnpm run build")
    entry = read_entry(read_entries(project)[0])
    assert entry is not None
    assert entry.compute_confidence(shell.now + HALF_LIFE) == pytest.approx(entry.confidence / 2, rel=0.01)
    late = Shell(tell, session="late")
    late.now = NOW + 3 * HALF_LIFE
    assert entry.compute_confidence(late.now) < FADED
    assert late.before("npm run build") == ""


@pytest.mark.parametrize(
    ("line", "normal"),
    [
        ("/home/bob/a.py:12: error: x", "<path>:<n>: error: x"),
        ("tests/a_b.py:3: in f", "<path>:<n>: in f"),
        ("port 8080 is in use", "port <n> is in use"),
        ("at 0x7ffe12 in 9f86d081884c", "at <hash> in <hash>"),
        ("2026-03-31T12:00:00Z failed in 3.5s", "<time> failed in <n>"),
        ("GET http://127.0.0.1:8000/x?a=1 refused", "GET <url> refused"),
        ("No module named 'foo.bar'", "No module named 'foo.bar'"),
        ('Missing script: "build"', 'Missing script: "build"'),
        ("C:\\Users\\bob\\a.txt is gone", "<path> is gone"),
        ("id 550e8400-e29b-41d4-a716-446655440000", "id <id>"),
        ("error E0308 and python3.11", "error E0308 and python3.11"),
        ("@scope/name is not in this registry", "@scope/name is not in this registry"),
    ],
)  # fmt: skip
def test_what_changes_is_out_of_a_trigger(line, normal):
    assert normalize_trigger(line) == normal


@pytest.mark.parametrize(
    ("command", "normal"),
    [
        ("cd web && npm run build 2>&1 | tail -5", "npm run build"),
        ("  FOO=1 sudo make   all ", "make all"),
        ("cat /tmp/x1y2/a.txt", "cat <*>"),
        ("/project/bin/run --port 8123", "./bin/run --port <*>"),
        ("git show 9f86d081884c", "git show <*>"),
        ("cd web", "cd web"),
        ("", ""),
    ],
)
def test_commands_are_known_again(command, normal):
    assert normalize_command(command, "/project") == normal


@pytest.mark.parametrize(
    ("one", "other", "near"),
    [
        ("npm run build", "pnpm run build", True),
        ("git status", "git push", False),
        ("git psuh", "git push", True),
        ("python a.py --fast --x 1", "python b.py", False),
        ("pip install flask", "python app.py", False),
        ("grep --recurse x .", "grep -r x .", True),
        ("make biuld", "make build", True),
        ("ls", "pwd", False),
        ("git push", "git pull", False),
        ("yarn run build", "yarn build", False),
        ("npm run build", "yarn build", True),
        ("jest a", "npx jest a", True),
        ("make x; make y", "make x; make -B y", True),
        ("make", "make | wc", False),
        ("node app2.js", "node app3.js", False),
    ],
)
def test_which_commands_explain_each_other(one, other, near):
    assert are_near(one, other) is near


class Repository(Shell):
    """A session that works in a real repository, with real edits, in real time."""

    def __init__(self, tell, project, session="s"):
        super().__init__(tell, session=session)
        self.project = project
        self.now = time.time()
        subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)

    def edit(self, name, text):
        time.sleep(0.02)
        (self.project / name).write_text(text)
        time.sleep(0.02)

    def run(self, command, code=0, output=""):
        self.now = time.time() - 1
        self.before(command)
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
        (["ls", "cat a.py"], ""),
        (["EDIT a.py", "npm ci"], ""),
        (["sed -i s/x/y/ a.py", "npm ci"], ""),
        (["npm ci"], "first run `npm ci`"),
        (["make deps"], "first run `make deps`"),
    ],
)
def test_where_files_were_edited_nothing_is_said(tell, project, between, resolution):
    shell = Repository(tell, project)
    shell.edit("a.py", "wrong x")
    shell.run("npm test", 1, "AssertionError: sum of apples")
    for step in between:
        if step.startswith("EDIT "):
            shell.edit(step[5:], "right")
            continue
        time.sleep(0.02)
        shell.now = time.time() - 1
        shell.before(step)
        if step == "make deps":  # what a command writes is no edit
            shell.edit("deps.lock", "1")
        elif "sed" in step:
            shell.edit("a.py", "wrong y")
        shell.now = time.time() - 1
        Shell.run(shell, step)
    shell.run("npm test")
    assert read_entries(project)[0]["resolution"] == resolution


def test_a_success_confirms_only_what_failed_before_it(tell, project):
    """Two failures of one command, one known: the success after the other one says nothing of it."""
    texts = {"context": "npm test", "trigger": "error: no lock file", "resolution": "first run `npm ci`"}
    put(project, make_entry(1, **texts, keywords=()))
    shell = Shell(tell)
    assert "npm ci" in shell.before("npm test")
    shell.run("npm test", 1, "AssertionError: sum of apples")
    shell.run("npm ci")
    shell.run("npm test")
    known = next(e for e in read_entries(project) if e["id"].endswith("a01"))
    assert (known["worked"], known["failed"], known["occurrences"]) == (0, 0, 3)
    again = Shell(tell, session="two")
    assert again.before("npm test")
    again.run("npm test", 1, "error: no lock file")
    again.run("npm ci")
    again.run("npm test")
    known = next(e for e in read_entries(project) if e["id"].endswith("a01"))
    assert (known["worked"], known["occurrences"]) == (1, 5)


@pytest.mark.parametrize("kind", ["correction", "insight", "pattern"])
def test_what_was_understood_is_recalled_without_a_resolution(tell, project, typed, kind):
    typed("capture", "--type", kind, "--trigger", "The database migrations need the staging tunnel")
    told = Shell(tell).prompt("run the database migrations")
    assert f'{kind}: "The database migrations need the staging tunnel"' in told


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
