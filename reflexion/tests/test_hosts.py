"""What each host's payloads mean: which commands failed, by what the host says, and by words only where it is silent."""

import json
import time
from pathlib import Path

import payloads
import pytest
from conftest import CASES
from reflexion.commands import answers_no, hides_end, normalize_command
from reflexion.hosts import BEFORE, FAILED, HOSTS, NOTHING, PROMPT, START, SUCCEEDED, read_event
from reflexion.triggers import pick_trigger

OUTPUTS = json.loads((Path(__file__).parent / "data/outputs.json").read_text(encoding="utf-8"))


def is_captured(agent: str, payload: dict) -> bool:
    event = read_event(agent, payload)
    return event.kind == FAILED and not answers_no(event.command, event.code, event.output)


@pytest.mark.parametrize("version", payloads.VERSIONS)
def test_capture_is_precise_and_misses_little(version):
    agent, build = version.split()[0], payloads.VERSIONS[version]
    captured = [mistake for command, code, text, mistake in OUTPUTS if is_captured(agent, build(command, code, text))]
    precision = sum(captured) / len(captured)
    recall = sum(captured) / sum(mistake for *_, mistake in OUTPUTS)
    print(f"\n{version}: precision {precision:.3f}, recall {recall:.3f} of {len(OUTPUTS)} outputs")
    assert precision >= 0.98
    assert recall >= 0.95


@pytest.mark.parametrize("version", payloads.VERSIONS)
def test_words_alone_flag_nothing(version):
    """The worst outputs of all, of a command that succeeded."""
    agent, build = version.split()[0], payloads.VERSIONS[version]
    for command, _, text, mistake in OUTPUTS:
        if mistake and not hides_end(command):
            assert read_event(agent, build(command, 0, text)).kind == SUCCEEDED, (command, text)


@pytest.mark.parametrize("host", payloads.MUTE)
def test_words_tell_where_nobody_else_does(host):
    """The recorded outputs without their exit codes; then cases of other tools, with successes full of such words."""
    build = payloads.MUTE[host]
    captured = [mistake for command, _, text, mistake in OUTPUTS if is_captured(host, build(command, text))]
    recall = sum(captured) / sum(mistake for *_, mistake in OUTPUTS)
    print(f"\n{host}: precision {sum(captured) / len(captured):.3f}, recall {recall:.3f}")
    assert sum(captured) >= len(captured) - 1  # one prints what Codex itself writes before an output
    assert recall >= 0.86
    for command, text, fails in CASES["judged"]:
        assert is_captured(host, build(command, text)) is fails, (command, text)


NPM_ERROR = 'npm ERR! Missing script: "build"'
"""What the source's own example captures (skill, Capture)."""

HIDDEN = [
    "npm run build || true",
    "npm run build || :",
    "npm run build ||true",
    "npm run build || /bin/true",
    "npm run build || echo 'no build; going on'",
    'npm run build || echo "the build failed"',
    "npm run build || exit 0",
    "npm run build; true",
    "npm run build; :",
    "npm run build; exit 0",
    "npm run build; echo done",
    "npm run build | tee build.log",
    "npm run build 2>&1 | tee build.log",
    "npm run build |& tee build.log",
    "npm run build 2>&1 | tail -5 || true",
    "cd web && npm run build || true",
    "(npm run build || true)",
    "{ npm run build || true; }",
    "(npm run build || true) 2>&1",
    "bash -c 'npm run build || true'",
    "set -o pipefail; npm run build | tee build.log || true",
]
"""Lines whose exit code is 0 whatever the build's is."""


@pytest.mark.parametrize("command", HIDDEN)
def test_errors_are_found_in_the_output_where_the_exit_code_is_hidden(command):
    event = read_event("claude-code", payloads.after_claude(command, 0, NPM_ERROR))

    assert event.kind == FAILED
    assert pick_trigger(event.output) == NPM_ERROR


@pytest.mark.parametrize("hidden", ["npm run build || true", "npm run build; :", "npm run build 2>&1 | tee build.log"])
def test_a_command_is_the_same_whatever_hides_its_exit_code(hidden):
    assert normalize_command(hidden) == normalize_command("npm run build")


@pytest.mark.parametrize(
    "command", ["npm run build", "set -o pipefail; npm run build | tee x", "true || npm run build"]
)
def test_an_exit_code_that_is_the_commands_own_is_believed(command):
    assert read_event("claude-code", payloads.after_claude(command, 0, NPM_ERROR)).kind == SUCCEEDED


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("grep -rn 'npm ERR!' logs || true", f"logs/a.txt:3:{NPM_ERROR}"),
        ("cat npm-debug.log || true", NPM_ERROR),
        ("cat npm-debug.log | tee copy.log", NPM_ERROR),
        ("tail -50 build.log || echo none", "make: *** [all] Error 1"),
        ("git log --oneline -3 || true", "1f2e3d4 error: say which file is missing"),
        ("rg fatal src || :", 'src/a.c:3: puts("fatal: not found");'),
        ("gh run view 12 --log-failed || true", NPM_ERROR),
        ("docker logs web || true", "Traceback (most recent call last):\nKeyError: 'x'"),
        ("ls dist || echo none", "ls: cannot access 'dist': No such file or directory\nnone"),
        ("npm run build || true", "built in 3 s, 0 errors"),
        ("pytest -q || true", "tests/test_error.py ...\n3 passed in 0.12s"),
        ("make || true", "cc -c error.c\nwarning: unused variable error"),
        ("python report.py; true", "ERROR 404 was handled\nfatal: none"),
    ],
)
def test_text_that_only_mentions_errors_is_no_failure_where_the_exit_code_is_hidden(command, output):
    assert read_event("claude-code", payloads.after_claude(command, 0, output)).kind == SUCCEEDED


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("rm build.log || true", "rm: cannot remove 'build.log': No such file or directory"),
        ("cd web && rmdir dist || :", "rmdir: failed to remove 'dist': No such file or directory"),
        ("docker rm -f web || true", "Error response from daemon: No such container: web"),
        ("git branch -D old || true", "error: branch 'old' not found."),
    ],
)
def test_what_is_gone_already_is_no_failure_where_the_line_goes_on(command, output):
    assert read_event("claude-code", payloads.after_claude(command, 0, output)).kind == SUCCEEDED


@pytest.mark.parametrize("command", ["make | tail -5", "make 2>&1 | cat", "make; echo done", "make || true", "make"])
def test_an_exit_code_that_is_not_the_commands_own_is_not_believed(command):
    event = read_event("claude-code", payloads.after_claude(command, 0, "make: *** [all] Error 1"))
    assert event.kind == (SUCCEEDED if command == "make" else FAILED)


@pytest.mark.parametrize("name", payloads.SILENT)
def test_where_a_host_says_nothing_nothing_follows(name):
    assert read_event(name.split()[0], payloads.SILENT[name]).kind == NOTHING


@pytest.mark.parametrize("agent", list(HOSTS))
def test_prompts_and_commands_to_come_are_read(agent):
    event = read_event(agent, payloads.PROMPTS[agent]("build it"))
    assert (event.kind, event.prompt, event.cwd, bool(event.session)) == (PROMPT, "build it", "/project", True)
    event = read_event(agent, payloads.BEFORE[agent]("npm run build"))
    assert (event.kind, event.command) == (BEFORE, "npm run build")
    starts = {"claude-code": "SessionStart", "codex": "SessionStart", "gemini": "SessionStart"}
    started = {"hook_event_name": starts.get(agent, "sessionStart" if agent == "cursor" else "session.created")}
    assert read_event(agent, started).kind == START


@pytest.mark.parametrize(("output", "line"), CASES["lines"])
def test_the_line_that_says_what_went_wrong(output, line):
    assert pick_trigger(output, 3) == line


@pytest.mark.parametrize("agent", list(HOSTS))
def test_fields_of_other_kinds_make_no_error(agent):
    """Every field of every payload, missing, and as something else."""
    built = [build("make", 1, "boom") for version, build in payloads.VERSIONS.items() if version.startswith(agent)]
    for payload in [*built, payloads.PROMPTS[agent]("x"), payloads.BEFORE[agent]("make")]:
        for name in payload:
            for other in (None, 7, "text", [], [1, "a"], {}, {"command": 3}, True, "\udcff", {"a": {"b": []}}):
                read_event(agent, {**payload, name: other})
            read_event(agent, {key: value for key, value in payload.items() if key != name})


@pytest.mark.parametrize("end", ["|| true ", "; echo a ", "| tail ", "; true >>>>", "|| echo '\"", "; true 2>a2 "])
def test_a_line_of_thousands_of_ends_is_read_at_once(end):
    before = time.process_time()
    read_event("claude-code", payloads.after_claude("make " + end * 5_000, 0, NPM_ERROR))
    assert time.process_time() - before < 3
