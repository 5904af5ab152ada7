"""The rules of a repository as a person would hand them to an agent: an AGENTS.md."""

from rsso_dspy.environments.house_rules.rules import Repository


def format_rules(repository: Repository) -> str:
    lines = ["# House rules", ""]
    lines += [f"- {rule.text}" for rule in repository.rules.values()]
    return "\n".join(lines) + "\n"
