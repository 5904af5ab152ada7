"""Commands of a shell, so that the same one is known again.

normalize_command("cd web && npm run build 2>&1 | tail -5")    # "npm run build"
show_command("cd web && npm run build 2>&1 | tail -5")         # "cd web && npm run build"
name_program("git push origin main")                           # "git push"
"""

import os
import re

LONGEST = 300
"""Characters of a command as it is compared."""
LONGEST_TYPED = 600
"""Characters of a command as it was typed."""
LONGEST_SHOWN = 200
"""Characters of a command that is proposed: a longer one would be cut where it is shown, and half of one is none."""

_WORD = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"']+")
_PIECE = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[<>]&|&>|&&|\|\||[|;&\n]|[^\"'|;&<>\n]+|.", re.S)
_BEFORE = re.compile(
    r"^\s*(?:cd\s+[^;&|]+(?:&&|;)\s*|(?:sudo(?:\s+-[EHnS]+)*|time|nice|command|exec)\s+"
    r"|export\s+\w+=\S*\s*(?:&&|;)\s*|\w+=(?:\"[^\"]*\"|'[^']*'|[^\s\"'])*\s+)"
)
_BEHIND = re.compile(
    r"\s*(?:2>&1|2>\s*/dev/null|[12]?>\s*/dev/null|\|\s*(?:tail|head|cat|less|tee)\b[^|;&]*|;\s*echo\b[^;&|]*)\s*$"
)
_HIDING = re.compile(
    r"(?:\|\s*(?:tail|head|cat|less|tee)\b[^|;&]*|;\s*echo\b[^;&|]*|\|\|\s*(?:true|:|echo\b[^;&|]*))\s*$"
)
"""Ends of a line whose exit code is theirs, and not that of what stands before them."""
_PASSING = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"
    r"|/tmp/[^\s;&|]+|/var/folders/[^\s;&|]+"
)  # fmt: skip
"""Ids, hashes and temporary places, which are others the next time."""
_CHANGING = re.compile(_PASSING.pattern + r"|(?<![\w.-])\d{3,}(?![\w.-])")

_WITH_VERBS = """
apt apt-get aws brew bundle cargo conda docker docker-compose dotnet gcloud gem gh git go helm hg kubectl mvn npm
npx pip pip3 pipenv pnpm poetry rails rustup svn systemctl terraform uv yarn bun deno
"""
WITH_VERBS = frozenset(_WITH_VERBS.split())
"""Programs whose first word says what they do."""

_QUERIES = """
cat cd date df du echo env file find git-diff git-log git-show git-status grep head less ls man more printenv ps pwd
rg stat tail tree type uname wc which whoami
"""
QUERIES = frozenset(_QUERIES.split())
"""Commands that look and change nothing: none of them is what helped."""

_TESTS = r"(?:^|/)(?:py\.test|pytest|jest|vitest|mocha|tox|nox|unittest|rspec|phpunit|ctest|tests?)$"

SAYS_NO = {
    "grep": {1}, "egrep": {1}, "fgrep": {1}, "rg": {1}, "ag": {1}, "zgrep": {1}, "pgrep": {1}, "diff": {1}, "cmp": {1},
    "test": {1}, "[": {1}, "[[": {1}, "which": {1}, "type": {1}, "command": {1}, "false": {1}, "expr": {1},
    "git diff": {1}, "git grep": {1}, "git merge-base": {1}, "git check-ignore": {1}, "git ls-remote": {2},
    "git rev-parse": set(), "timeout": {124}, "kill": {1}, "pkill": {1}, "comm": set(), "npm outdated": {1},
}  # fmt: skip
"""Programs to exit codes by which they answer no, and report no failure."""


def split_words(command: str) -> list[str]:
    """Words as a shell would take them, roughly: quotes hold together, and whatever is unfinished is a word."""
    return [word.strip("\"'") or word for word in _WORD.findall(command[: 4 * LONGEST])]


def split_parts(command: str) -> list[str]:
    """The commands of a line, roughly, without the signs between them; quotes hold together."""
    parts = [""]
    for piece in _PIECE.findall(command[: 4 * LONGEST]):
        if piece in ("&&", "||", "|", ";", "&", "\n"):
            parts.append("")
        else:
            parts[-1] += piece
    return [part.strip() for part in parts if part.strip()]


def normalize_command(command: str, root: str = "") -> str:
    """One line that is equal for calls that are the same: no `cd` or settings before it, no `| tail` behind it, no
    temporary paths, hashes and large numbers, places relative to `root` and to the home folder."""
    line = split_before(shorten_places(command[: 8 * LONGEST], root))[1]
    return _CHANGING.sub("<*>", line)[:LONGEST].strip()


def split_before(command: str) -> tuple[list[str], str]:
    """What stands before a command in one line (`cd X &&`, `sudo`, `NAME=value`), and the command itself, without what
    only shortens or hides its output."""
    line = " ".join(command.split())
    parts: list[str] = []
    while True:
        found = _BEFORE.match(line)
        shorter = _BEHIND.sub("", line[found.end() :] if found else line, count=1)
        if shorter == line or not shorter:
            return parts, line
        if found:
            parts.append(found[0].strip())
        line = shorter


def list_before(command: str) -> list[str]:
    """Parts that stand before a command and may have helped it, in the form in which they are compared."""
    parts = [_PASSING.sub("<*>", re.sub(r"\s*(?:&&|;)$", "", part)) for part in split_before(command)[0]]
    return [part for part in parts if part not in ("time", "nice", "command", "exec", "cd .", "cd ./")]


def show_command(command: str) -> str:
    """A command as it can be run again: what stands before it too, nothing of what passes. Empty for one that does not
    fit into one short line, or between backquotes."""
    parts, line = split_before(command)
    shown = " ".join([*(_PASSING.sub("<*>", part) for part in parts), _CHANGING.sub("<*>", line)])
    fits = len(shown) <= LONGEST_SHOWN and not re.search(r"[\n`]|<<", command.strip())
    return shown if fits else ""


def hides_end(command: str) -> bool:
    """Whether the exit code is that of a `| tail` and the like: that of the command is not known."""
    return bool(_HIDING.search(command)) and "pipefail" not in command


def shorten_places(text: str, root: str = "") -> str:
    """The text with the project's folder as `.` and the home folder as `~`: neither is anybody else's business."""
    home = os.path.expanduser("~")
    for place, sign in ((root, "."), (home, "~")):
        if len(place) > 1:
            text = re.sub(re.escape(place) + r"(?=[/\s\"':;,)\]]|$)", sign, text)
    return text


def name_program(command: str) -> str:
    """The program, with the word that says what it does: `git push`, `python -m pip`, `make`."""
    words = split_words(command)
    while words and ("=" in words[0] or words[0] in ("sudo", "env", "time", "nice", "command", "exec")):
        words = words[1:]
    if not words:
        return ""
    program = words[0].rsplit("/", 1)[-1].removesuffix(".exe").lower()
    if re.fullmatch(r"python[\d.]*", program) and words[1:2] == ["-m"] and len(words) > 2:
        return f"python -m {words[2].lower()}"
    if program in WITH_VERBS:
        verb = next((word for word in words[1:] if not word.startswith("-")), "")
        return f"{program} {verb.lower()}".strip()
    return program


def is_test_run(command: str) -> bool:
    """Whether a command runs tests: it changes nothing, and fewer or other tests are no remedy for one that fails."""
    return any(re.search(_TESTS, word) for word in split_words(command)[:3])


def answers_no(command: str, code: int | None, output: str = "") -> bool:
    """Whether this exit code is an answer of this command, as grep's 1 is, and no failure. Where a host says that it
    failed and not how, it is one unless the program complains in its own name."""
    last = re.split(r"\|\||&&|[|;]", command)[-1].strip() or command
    program = name_program(last)
    codes = SAYS_NO.get(program, SAYS_NO.get(program.partition(" ")[0], set()))
    if code is None and codes:
        name = re.escape(program.partition(" ")[0])
        return not re.search(rf"(?m)^(?:{name}|fatal|error|usage)\b.*:", output[:20_000])
    return code in codes


def is_query(command: str) -> bool:
    """Whether a command only looks."""
    program = name_program(command)
    return program in QUERIES or program.replace(" ", "-") in QUERIES
