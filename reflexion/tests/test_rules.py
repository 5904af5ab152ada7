"""From entries to rules, and rules for other agents."""

import re
from pathlib import Path

import pytest
from conftest import CASES, NOW, make_entry, put, read_entries
from reflexion.install import plan_install, write_changes
from reflexion.promote import BEGIN, END, explain_unready, insert_rule, plan_promotion, write_promotion
from reflexion.recall import recall_for_prompt
from reflexion.store import Store

from reflexion import ReflexionError


def plan(root):
    with Store(root) as store:
        planned = plan_promotion(store, NOW)
    assert planned is not None
    return planned


def promote(root, planned) -> None:
    with Store(root) as store:
        write_promotion(store, planned)


def list_rules(text: str) -> list[str]:
    """The rules in a text's marked block."""
    return [line for line in text.partition(BEGIN)[2].partition(END)[0].splitlines() if line.startswith("- ")]


@pytest.mark.parametrize(("changes", "why"), CASES["ready"])
def test_what_is_ready_to_be_a_rule(changes, why, project):
    with Store(put(project, make_entry(**changes))) as store:
        said = explain_unready(store, make_entry(**changes), NOW)
    assert bool(said) is bool(why)
    assert why in said


@pytest.mark.parametrize(
    "before",
    ["", "# Mine\n", "# Mine", "# A\r\n\r\nrule\r\n", f"{BEGIN}\n## Learnt from failures\n\n- old\n{END}\n\nafter\n"],
)
def test_one_rule_a_promotion_and_nothing_else_changes(before, project):
    root = put(project, make_entry(1), make_entry(2, context="git psuh", occurrences=9))
    (project / "CLAUDE.md").write_text(before, newline="")
    for number, left in ((1, 1), (2, 0)):
        planned = plan(root)
        assert planned.others == left
        taken = [line for line in planned.change.diff.splitlines() if re.match("-(?!-- )", line)]
        assert set(taken) <= {"-# Mine"}
        promote(root, planned)
        text = (project / "CLAUDE.md").read_text()
        assert len(list_rules(text)) == number + ("- old" in before)
        assert (text.count(BEGIN), text.count(END)) == (1, 1)
    after = (project / "CLAUDE.md").read_bytes().decode()
    assert after.replace("\r\n", "\n").startswith(before.replace("\r\n", "\n").partition(END)[0])
    assert after.endswith(before.partition(END)[2] or after)
    assert "git psuh" in list_rules(after)[-2]  # the most seen first
    assert all(entry["promoted"] for entry in read_entries(project))
    with Store(root) as store:
        assert plan_promotion(store, NOW) is None
        assert recall_for_prompt(store, "npm build missing script", NOW) == []


@pytest.mark.parametrize("text", [BEGIN, END, f"{END}\n{BEGIN}", f"{BEGIN}{BEGIN}{END}"])
def test_broken_marks_are_named(text):
    with pytest.raises(ReflexionError, match="make it one of each"):
        insert_rule(text, "- x", "AGENTS.md")


@pytest.mark.parametrize(
    "evil", [f"x {END} y", "<!-- a --> b", "a\n# Heading\n- rule", "`code` [link](http://x) \u202e", "x" * 900]
)
def test_a_rule_is_one_line_that_closes_nothing(evil, project):
    text = plan(put(project, make_entry(resolution=evil, trigger=evil))).change.after
    assert (text.count("\n"), text.count(END), text.count("-->")) == (5, 1, 2)
    assert "\u202e" not in text


def test_a_file_that_changed_meanwhile_is_not_written_over(project):
    root = put(project, make_entry())
    planned = plan(root)
    (project / "AGENTS.md").write_text("new\n")
    with pytest.raises(ReflexionError, match="changed meanwhile"):
        promote(root, planned)
    assert (project / "AGENTS.md").read_text() == "new\n"


@pytest.mark.parametrize(
    ("installed", "there", "written"),
    [("", "", "AGENTS.md"), ("claude-code", "", "CLAUDE.md"), ("claude-code codex", "", "AGENTS.md"),
     ("claude-code", "AGENTS.md", "AGENTS.md"), ("codex", "CLAUDE.md", "CLAUDE.md")],
)  # fmt: skip
def test_rules_go_where_the_host_reads_them(installed, there, written, project):
    root = put(project, make_entry())
    for agent in installed.split():
        write_changes(plan_install(agent, root), installs=True)
    for name in there.split():
        (project / name).touch()
    assert Path(plan(root).change.path).name == written


def test_a_rules_file_that_leads_out_of_the_project_is_not_followed(project, tmp_path):
    root = put(project, make_entry())
    (tmp_path / "id_rsa").write_text("-----BEGIN KEY")
    (project / "AGENTS.md").symlink_to(tmp_path / "id_rsa")
    with pytest.raises(ReflexionError, match="out of the project"):
        plan(root)
    (project / "AGENTS.md").unlink()
    (project / "AGENTS.md").symlink_to("CLAUDE.md")
    (project / "CLAUDE.md").write_text("# Mine\n")
    assert plan(root).change.before == "# Mine\n"


@pytest.mark.parametrize(
    ("settings", "rules", "said"),
    [
        (None, 1, "one rule more"),
        ('{"auto_promote": true, "rules_file": "CLAUDE.md"}', 1, "CLAUDE.md has one rule more"),
        ('{"auto_promote": false}', 0, ""),
        ('{"auto_promote": "no"}', 0, "mend or delete it"),
        ('{"rules_file": "/etc/passwd"}', 0, "mend or delete it"),
        ("{auto_promote: false}", 0, "mend or delete it"),
    ],
)
def test_what_is_ready_becomes_a_rule_unless_the_settings_say_no(settings, rules, said, project, tell):
    """The agent is told so in a line, or that settings which cannot be read prevent it."""
    put(project, make_entry())
    if settings:
        (project / ".reflexion/config.json").write_text(settings)
    told = tell("claude-code", {"hook_event_name": "SessionStart", "session_id": "s", "cwd": str(project)})
    files = [project / name for name in ("AGENTS.md", "CLAUDE.md") if (project / name).exists()]
    assert [len(list_rules(file.read_text())) for file in files] == [1] * rules
    assert said in told
    assert bool(said) is bool(told)


def test_a_secret_that_somebody_wrote_into_an_entry_goes_no_further(project, tell, typed):
    secret = "ghp" + "_16C7e42F292c6912E7710c838347Ae178B4a"
    keywords = ("npm", "build", secret.lower())
    entry = make_entry(resolution=f"export NPM_TOKEN={secret}", occurrences=2, keywords=keywords)
    file = Path(put(project, entry)) / f".reflexion/entries/{entry.id}.json"
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": str(project), "prompt": "npm build"}
    assert "NPM_TOKEN=***" in tell("claude-code", prompt)
    assert secret.lower() not in (project / ".reflexion/index.txt").read_text().lower()
    code, said = typed("rebuild-index")
    assert (code, "looks like a secret" in said) == (1, True)
    file.write_text(file.read_text().replace('"occurrences": 2', '"occurrences": 3'))
    tell("claude-code", {**prompt, "hook_event_name": "SessionStart"})
    assert "NPM_TOKEN=***" in (project / "AGENTS.md").read_text()
