"""The loop, event by event: what is captured, proposed, recalled, verified and made a rule."""

import contextlib
import json
import sqlite3
from pathlib import Path

import payloads
import pytest
from conftest import NOW, read_entries
from entries import make_entry, put
from reflexion.block import count_tokens
from reflexion.commands import normalize_command
from reflexion.confidence import FADED, HALF_LIFE, compute_confidence, resolve
from reflexion.entry import PROPOSED, Entry, dump_entry, read_entry
from reflexion.index import EVERY, open_index
from reflexion.install import plan_install, write_plan
from reflexion.nearness import are_near
from reflexion.resolution import UNCHANGED
from reflexion.status import examine
from reflexion.triggers import normalize_trigger

MISSING = 'npm error Missing script: "build"'
HOSTS = {
    "claude-code": "claude-code 2",
    "codex": "codex 2",
    "gemini": "gemini 2",
    "cursor": "cursor 2",
    "opencode": "opencode 1",
}


class Shell:
    """A session of an agent: what it runs, and what it is told."""

    def __init__(self, tell, agent="claude-code", session="s"):
        self.tell, self.agent, self.session, self.now = tell, agent, session, NOW

    def _tell(self, payload):
        self.now += 1
        fields = ("session_id", "conversation_id")
        return self.tell(self.agent, {**payload, **dict.fromkeys(fields, self.session)}, self.now)

    def run(self, command, code=0, output=""):
        return self._tell(payloads.VERSIONS[HOSTS[self.agent]](command, code, output))

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
        (f"Exit code: 1\nWall time: 0.1 seconds\nOutput:\n{MISSING}", True),
        (f"Process exited with code 1\nOutput:\n{MISSING}", True),
        (json.dumps({"output": MISSING, "metadata": {"exit_code": 1}}), True),
        ([{"type": "input_text", "text": payloads.write_codex_head(1, MISSING)}], True),
        (payloads.write_codex_head(0, MISSING), False),
        (f"{MISSING}\nProcess exited with code 1", False),
        (MISSING, False),
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
    found = [(ok, said) for ok, said, _ in examine(str(project), NOW) if "how they ended" in said]
    assert found == [(well, f"codex: {commands} commands of which it is not known how they ended")]


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
        ("python app.py", ["pip install flask", "python app.py"], "first run `pip install flask`"),
        ("make", ["./configure", "ls", "make deps", "make"], "first run `./configure`, then `make deps`"),
        ("pytest -q", ["pytest -q"], UNCHANGED),
        ("pytest -q", ["cat a.py", "pytest tests/test_b.py", "pytest -q"], UNCHANGED),
        ("tar --extrct -f a.tar", ["tar --extract -f a.tar"], "use `tar --extract -f a.tar`"),
        ("cd web && npm run build 2>&1 | tail", ["npm ci", "FOO=1 npm run build"], "first run `npm ci`, then `FOO=1 npm run build`"),
        ("apt-get install jq", ["sudo apt-get install jq"], "use `sudo apt-get install jq`"),
        ("npm run build", ["NODE_OPTIONS=--max-old-space-size=4096 npm run build"], "use `NODE_OPTIONS=--max-old-space-size=4096 npm run build`"),
        ("npm test", ["cd sub && npm test"], "use `cd sub && npm test`"),
        ("npm test", ["cd PROJECT/sub && npm test 2>/dev/null"], "use `cd ./sub && npm test`"),
        ("npm test", ["cd sub", "npm test"], "first run `cd sub`"),
        ("npm test", ["npm ci 2>&1 | tail -3", "cd sub && npm test"], "first run `npm ci`, then `cd sub && npm test`"),
        ("npm publish", [f"TOKEN={payloads.SECRET} npm publish"], "use `TOKEN=*** npm publish`"),
        ("npm run biuld", ["cd sub && npm run build"], "use `cd sub && npm run build`"),
        ("pytest -q", [". env/bin/activate && pytest -q"], "use `. env/bin/activate && pytest -q`"),
        ("cd web && npm test", ["npm test"], ""),
        ("npm test", ["cd PROJECT && npm test"], ""),
        ("sudo make", ["sudo make"], UNCHANGED),
        ("curl localhost:8000", ["curl localhost:8001"], ""),
        ("sleep 1000", ["sleep 2000"], ""),
        ("npm run build", ["npm run build 2>&1 | tail -5"], ""),
        ("npm run build", ["npm run build; echo done"], ""),
        ("npm run build", ["set -o pipefail; npm run build | tail -5"], "use `set -o pipefail; npm run build`"),
        ("git push", ["git push --force origin main"], ""),
        ("git push", ["git push -uf origin HEAD"], ""),
        ("git push", ["git push origin +main"], ""),
        ("git push", ["git push -u origin HEAD"], "use `git push -u origin HEAD`"),
        ("git push --force origin mian", ["git push --force origin main"], "use `git push --force origin main`"),
        ("rm -i build/a", ["sudo rm -rf build"], ""),
        ("rm build/a", ["rm -r build/a"], ""),
        ("npm ci", ["rm -rf node_modules", "npm ci"], ""),
        ("make", ["sh -c 'cd x && rm -rf y'", "make"], ""),
        ("git pull", ["git reset --hard", "git pull"], ""),
        ("git checkout dev", ["git clean -fd", "git checkout dev"], ""),
        ("./run.sh", ["chmod 777 run.sh", "./run.sh"], ""),
        ("./run.sh", ["chmod +x run.sh", "./run.sh"], "first run `chmod +x run.sh`"),
        ("git commit -m x", ["git commit --no-verify -m x"], ""),
        ("pytest tests/test_a.py", ["pytest tests/test_b.py"], ""),
        ("pytest tests/test_a.py", ["pytest -x tests/test_b.py"], ""),
        ("pytest -q", ["pytest -q -k fast"], ""),
        ("pytest", ["pip install pytest"], ""),
        ("npm install left-pad", ["npm install right-pad"], ""),
        ("npm install left-pad", ["npm uninstall left-pad"], ""),
        ("npm install lodahs", ["npm install lodash"], "use `npm install lodash`"),
        ("cat conf.json", ["touch conf.json"], ""),
        ("mypy src tests", ["black src tests"], ""),
        ("python test/check.py", ["python tools/check.py"], "use `python tools/check.py`"),
        ("python x.py", ["cat > x.py <<EOF\nprint(1)\nEOF", "python x.py"], UNCHANGED),
        ("make", ["./configure --with=" + "x" * 300, "make"], ""),
        ("python x.py", ["ls", "git status", "echo done"], ""),
        ("git push", ["git add .", "git commit -m x"], ""),
        ("cargo build", ["docker build ."], ""),
    ],
)  # fmt: skip
def test_what_helped_is_proposed(tell, project, failed, then, resolution):
    shell = Shell(tell)
    shell.run(failed, 1, "error: it does not work")
    for command in then:
        shell.run(command.replace("PROJECT", str(project)))
    assert read_entries(project)[0]["resolution"] == resolution


def test_only_the_same_session_explains_a_failure(tell, project):
    Shell(tell, session="one").run("npm run build", 1, MISSING)
    Shell(tell, session="two").run("pnpm run build")
    assert read_entries(project)[0]["resolution"] == ""


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
    third = Shell(tell, session="three")
    third.prompt("a build with npm please")
    third.run("npm ci")
    third.run("yarn run build", 0)
    before = read_entries(project)[0]
    fourth = Shell(tell, session="four")
    fourth.prompt("a build with npm please")
    entry = read_entry(before)
    assert entry is not None
    fourth.run("yarn run build", 1, "Usage Error: gone")
    assert {e["context"] for e in read_entries(project)} == {"npm run build", "yarn run build"}


OLDER = ["run it again: it worked unchanged", "it worked after a change to files"]


@pytest.mark.parametrize("said", [UNCHANGED, *OLDER])
@pytest.mark.parametrize(
    ("runs", "counts"),
    [
        ([("pytest -q", 0)], (1, 0, 0)),
        ([("pytest -q", 0), ("pytest -q", 0)], (1, 0, 0)),
        ([("pytest -q", 1)], (2, 0, 0)),
        ([("pytest -q", 1), ("pytest -q", 0)], (3, 1, 0)),
        ([("pytest -q", 1), ("ls", 0), ("pytest -q", 1)], (3, 0, 1)),
        ([("pytest -q", 1), ("pip install x", 0), ("pytest -q", 0)], (2, 0, 0)),
        ([("pytest -q", 1), ("FOO=1 pytest -q", 0)], (2, 0, 0)),
        ([("pytest -q", 0), ("pytest -q", 1)], (2, 0, 0)),
    ],
)
@pytest.mark.parametrize("recalled", ["prompt", "before", "with the failure"])
def test_what_never_failed_is_no_proof_that_running_it_again_helps(tell, project, said, runs, counts, recalled):
    shell = Shell(tell)
    for code in (1, 0):
        shell.run("pytest -q", code, "FAILED the timer timed out")
    (file,) = (project / ".reflexion/entries").glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "resolution": said}))
    again = Shell(tell, session="two")
    if recalled == "prompt":
        assert again.prompt("why is pytest timed out by its timer")
    for command, code in runs:
        if recalled == "before":
            again.before(command)
        again.run(command, code, "FAILED the timer timed out")
    (entry,) = read_entries(project)
    assert (entry["occurrences"], entry["worked"], entry["failed"]) == counts


@pytest.mark.parametrize(("command", "worked"), [("apt-get install jq", 0), ("cd x && sudo apt-get install jq", 1)])
def test_what_stands_before_a_command_is_verified_with_it(tell, project, command, worked):
    shell = Shell(tell)
    shell.run("apt-get install jq", 100, "E: Could not open lock file")
    shell.run("sudo apt-get install jq")
    again = Shell(tell, session="two")
    assert "sudo apt-get install jq" in again.prompt("install jq with apt-get")
    assert again.before("sudo apt-get install jq") == ""  # it does that already
    assert "sudo apt-get" in again.before("apt-get install jq")
    again.run(command)
    assert read_entries(project)[0]["worked"] == worked


def test_what_was_done_between_two_recalls_counts(tell, project):
    """A host that asks before every command recalls the entry again, behind what it said to run first."""
    shell = Shell(tell)
    shell.run("python app.py", 1, "ModuleNotFoundError: No module named 'flask'")
    shell.run("pip install flask")
    shell.run("python app.py")
    again = Shell(tell, session="two")
    assert again.prompt("python app.py needs flask")
    again.run("pip install flask")
    assert again.before("python app.py")
    again.run("python app.py")
    assert read_entries(project)[0]["worked"] == 1


def test_an_index_of_an_older_version_is_taken_over(tell, project, home):
    shell = Shell(tell)
    shell.run("npm run build", 1, MISSING)
    (path,) = home.rglob("index.db")
    with contextlib.closing(sqlite3.connect(path)) as index:
        index.executescript(
            "ALTER TABLE ran DROP COLUMN typed; ALTER TABLE open_failure DROP COLUMN typed; PRAGMA user_version=2"
        )
    shell.run("npm run build", 1, MISSING)
    shell.run("pnpm run build")
    (entry,) = read_entries(project)
    assert (entry["occurrences"], entry["resolution"]) == (2, "use `pnpm run build`")


@pytest.mark.parametrize("seen_by", ["a session that starts", "a verb", "doctor"])
def test_an_entry_that_is_edited_in_place_is_recalled(tell, project, seen_by):
    """Written over, the file is newer and its folder is not."""
    shell = Shell(tell)
    shell.run("npm run build", 1, MISSING)
    assert shell.prompt("do an npm build") == ""
    (file,) = (project / ".reflexion/entries").glob("*.json")
    file.write_text(file.read_text().replace('"resolution": ""', '"resolution": "use `pnpm run build`"'))
    if seen_by == "a session that starts":
        start = {**payloads.PROMPTS["claude-code"](""), "hook_event_name": "SessionStart", "source": "startup"}
        assert tell("claude-code", start) == ""
    elif seen_by == "doctor":
        examine(str(project), NOW)
    else:
        with open_index(str(project), checks=EVERY):
            pass
    assert "pnpm run build" in Shell(tell, session="two").prompt("do an npm build")


def test_files_are_looked_at_in_turns(project):
    root = put(project, *(make_entry(number, resolution="") for number in range(5)))
    with open_index(root):
        pass
    for file in (project / ".reflexion/entries").glob("*.json"):
        file.write_text(file.read_text().replace('"resolution": ""', '"resolution": "use `pnpm run build`"'))
    found = []
    for _ in range(4):
        with open_index(root, checks=2) as index:
            found.append(len(index.list_recallable()))
    assert found == [2, 4, 5, 5]


def test_doctor_names_hooks_that_are_called_twice(project):
    for scope in ("project", "user"):
        assert not [said for _, said, _ in examine(str(project), NOW) if "twice" in said]
        write_plan(plan_install("claude-code", str(project), scope), installs=True)
    ((well, said, mend),) = [line for line in examine(str(project), NOW) if "twice" in line[1]]
    assert not well
    assert "settings.local.json and in " in said
    assert "reflexion uninstall --agent claude-code" in mend


def test_a_resolution_that_does_not_help_loses_confidence(tell, project):
    shell = Shell(tell)
    shell.run("python app.py", 1, "ModuleNotFoundError: No module named 'flask'")
    shell.run("pip install flask")
    shell.run("python app.py")
    start = read_entries(project)[0]["confidence"]
    again = Shell(tell, session="two")
    assert "pip install flask" in again.before("python app.py")
    again.run("pip install flask")
    again.run("python app.py", 1, "ModuleNotFoundError: No module named 'flask'")
    entry = read_entries(project)[0]
    assert (entry["failed"], entry["review"]) == (1, True)
    assert entry["confidence"] == pytest.approx(start / 2)
    assert "did not work" in entry["notes"][0]


def test_a_failure_that_is_known_is_told_with_what_helped(tell):
    shell = Shell(tell)
    shell.run("python app.py", 1, "ModuleNotFoundError: No module named 'flask'")
    shell.run("pip install flask")
    shell.run("python app.py")
    told = Shell(tell, session="two").run("python app.py --debug", 1, "ModuleNotFoundError: No module named 'flask'")
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
    assert compute_confidence(entry, shell.now + HALF_LIFE) == pytest.approx(entry.confidence / 2, rel=0.01)
    late = Shell(tell, session="late")
    late.now = NOW + 3 * HALF_LIFE
    assert compute_confidence(entry, late.now) < FADED
    assert late.before("npm run build") == ""


def test_a_proposal_never_replaces_what_is_confirmed():
    entry = Entry("RFX-20260331-abc", trigger="x", resolution="mine", resolved_by="confirmed")
    assert resolve(entry, "other", PROPOSED, NOW) == entry
    assert resolve(entry._replace(resolved_by="proposed"), "other", PROPOSED, NOW).resolution == "other"


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


def test_entries_of_the_original_loop_are_read():
    """As its page shows one: no confidence, days without a time."""
    seed = {"id": "RFX-20260331-a7f", "type": "error", "trigger": MISSING, "context": "npm run build", "resolution": "",
            "keywords": ["npm", "build", "missing", "script"], "occurrences": 1, "first_seen": "2026-03-31",
            "last_seen": "2026-03-31", "promoted": False, "cwd": "/home/user/project", "mine": [1]}  # fmt: skip
    entry = read_entry(seed)
    assert entry is not None
    assert dump_entry(entry).items() >= seed.items()
    assert json.loads(json.dumps(dump_entry(entry))) == dump_entry(entry)
