"""Options by which a command destroys what it can: none of them is proposed where the failed command had it not.

find_dangers("git push --force origin main")    # {"force"}
"""

import re

from reflexion.commands import split_parts

_DANGERS = (
    ("force", r"(?:^|\s)--force\b(?!-reinstall)|\bgit\b.*\spush\b.*\s(?:-[a-zA-Z]*f[a-zA-Z]*|\+\S+|--mirror)(?=\s|$)"),
    ("force", r"\bgit\b.*\s(?:checkout|switch)\b.*\s(?:-f|--discard-changes)(?=\s|$)"),
    ("delete", r"(?:^|[\s/])rm\b.*\s(?:-[a-zA-Z]*[rRf][a-zA-Z]*|--recursive)(?=\s|$)|\s-delete(?=\s|$)"),
    ("delete", r"\bgit\b.*\s(?:branch\b.*\s-[a-zA-Z]*D|push\b.*\s(?:--delete|-d|:\S+)|stash\s+(?:drop|clear))(?=\s|$)"),
    ("delete", r"\b(?:docker|podman)\b.*\s(?:prune|rm|rmi|down\b.*\s(?:-v|--volumes))(?=\s|$)"),
    ("delete", r"\bkubectl\b.*\sdelete\b|\b(?:terraform|tofu)\b.*\sdestroy\b"),
    ("delete", r"\b(?:shred|mkfs[\w.]*|wipefs)\b|\bdd\b.*\sof="),
    ("delete", r"(?i)\bdrop\s+(?:table|database|schema)\b|\btruncate\b"),
    ("reset", r"\bgit\b.*\sreset\b.*\s--(?:hard|merge|keep)\b"),
    ("reset", r"\bgit\b.*\s(?:checkout|restore)\s.*(?<!\S)(?:\.|--)(?=\s|$)"),
    ("reset", r"\bgit\b.*\sclean\b.*\s-[a-zA-Z]*f|\bgit\b.*\s(?:filter-branch|filter-repo)\b"),
    ("rights", r"\bchmod\b.*\s(?:[0-7]?[0-7]{2}[2367]|-[a-zA-Z]*R[a-zA-Z]*|--recursive)(?=\s|$)"),
    ("rights", r"\bchmod\b.*\s(?:[ugoa,=+rwxXst]*[oa][ugo]*[+=][rxXst]*w\S*|\+[rx]*w\S*)(?=\s|$)"),
    ("rights", r"\bchown\b.*\s(?:-[a-zA-Z]*R[a-zA-Z]*|--recursive)(?=\s|$)"),
    ("checks", r"(?:^|\s)(?:--no-verify|--no-preserve-root|--no-check-certificate|--insecure)(?=\s|$)"),
)  # fmt: skip
"""What is at stake, and a pattern of one command of a line."""


def find_dangers(command: str) -> set[str]:
    """What a line of commands puts at stake."""
    parts = split_parts(command) + split_parts(re.sub(r"[\"'()]", " ", command))  # also inside of `sh -c "..."`
    return {danger for part in parts for danger, pattern in _DANGERS if re.search(pattern, part)}
