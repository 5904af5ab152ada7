"""What is kept of commands, and what is struck out of what they print."""

from pathlib import Path

import payloads
import pytest
from conftest import CASES, NOW, read_entries
from payloads import SECRET
from reflexion.secrets import clean_command, strike_text

WORD = "hunter22x"
"""Stands for X in the commands: no list of shapes knows it."""


@pytest.mark.parametrize("command", [each.replace("X", WORD) for each in CASES["redacted"]])
def test_no_value_of_a_command_is_kept(command, tmp_path):
    (tmp_path / "k").touch()
    kept = clean_command(command, (str(tmp_path),), f"error: {command.split()[0]} failed")
    assert WORD not in kept
    assert "***" in kept or kept == command


@pytest.mark.parametrize(("command", "error", "kept"), CASES["kept"])
def test_what_says_what_was_done_stays(command, error, kept):
    root = str(Path(__file__).parents[1])
    assert clean_command(command, (root, f"{root}/tests"), error) == (kept or command)


@pytest.mark.parametrize(("before", "parts", "behind"), CASES["secrets"])
def test_tokens_in_free_text_are_gone(before, parts, behind):
    secret = "".join(parts)  # in parts there, so that no scanner finds it in a file
    left = strike_text(before + secret + behind)
    assert "***" in left
    assert not any(secret[at : at + 8] in left for at in range(len(secret) - 7)), left


@pytest.mark.parametrize("text", CASES["plain"])
def test_what_only_looks_like_one_stays(text):
    assert strike_text(text) == text


def test_what_a_command_gave_and_the_environment_has_is_gone_from_what_it_printed(monkeypatch):
    monkeypatch.setenv("SHOP_TOKEN", "orange-battery-staple")
    said = "denied for orange-battery-staple and hunter22x"
    assert strike_text(said, f"mysql -u root -p{WORD}") == "denied for *** and ***"
    assert strike_text(said, f"mysql -u root --password {WORD}") == "denied for *** and ***"


@pytest.mark.parametrize("place", ["command", "output", "both"])
@pytest.mark.parametrize("secret", [SECRET, WORD])
def test_no_secret_reaches_the_disk(tell, project, home, place, secret):
    """Neither the entry, nor the index, nor the session, nor the log has one, and the command is known again."""
    if secret == WORD and place == "output":
        pytest.skip("free text: a plain word looks like nothing")
    command = f"deploy --all --quick --token {secret}" if place != "output" else "deploy --all"
    output = f"error: bad credentials {secret}" if place != "command" else "error: bad credentials"
    for _ in range(2):
        tell("claude-code", payloads.after_claude(command, 1, output))
    (entry,) = read_entries(project)
    assert entry["occurrences"] == 2
    for file in [*project.rglob("*"), *home.rglob("*")]:
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file
    if place != "output":
        tell("claude-code", payloads.after_claude(f"sudo {command}", 0, ""))
        assert read_entries(project)[0]["resolution"] == "use `sudo deploy --all --quick --token ***`"
        assert tell("claude-code", {**payloads.BEFORE["claude-code"](command), "session_id": "z"}, NOW + 9)
