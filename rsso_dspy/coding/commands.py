"""Commands of a shell, so that the same one is known again.

normalize_command("cd web && npm run build 2>&1 | tail -5")    # "npm run build"
name_program("git push origin main")                           # "git push"
are_near("npm run build", "pnpm run build")                    # True: one may be what the other should have been
"""

import os
import re

LONGEST = 300
"""Characters of a command that are kept."""

_WORD = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"']+")
_BEFORE = re.compile(
    r"^\s*(?:cd\s+[^;&|]+(?:&&|;)\s*|(?:sudo|time|nice|command|exec)\s+|export\s+\w+=\S*\s*(?:&&|;)\s*|\w+=\S*\s+)"
)
_BEHIND = re.compile(
    r"\s*(?:2>&1|2>\s*/dev/null|[12]?>\s*/dev/null|\|\s*(?:tail|head|cat|less|tee)\b[^|;&]*|;\s*echo\b[^;&|]*)\s*$"
)
_CHANGING = re.compile(
    r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"
    r"|/tmp/\S+|/var/folders/\S+|(?<![\w.-])\d{3,}(?![\w.-])"
)  # fmt: skip

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


def normalize_command(command: str, root: str = "") -> str:
    """One line that is equal for calls that are the same: no `cd` or settings before it, no `| tail` behind it, no
    temporary paths, hashes and large numbers, places relative to `root` and to the home folder."""
    line = " ".join(command[: 8 * LONGEST].split())
    line = shorten_places(line, root)
    while (shorter := _BEHIND.sub("", _BEFORE.sub("", line, count=1), count=1)) != line and shorter:
        line = shorter
    return _CHANGING.sub("<*>", line)[:LONGEST].strip()


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


def are_near(one: str, other: str) -> bool:
    """Whether one of two normalized commands may be what the other one should have been: the same but for the program
    (`npm run build`, `pnpm run build`), or the same program with other arguments that share something, or are few."""
    if one == other:
        return True
    mine, theirs = split_words(one), split_words(other)
    if not mine or not theirs:
        return False
    shared, every = set(mine) & set(theirs), set(mine) | set(theirs)
    if mine[1:] == theirs[1:] and len(mine) > 1:
        return True
    named, named_other = name_program(one), name_program(other)
    if named == named_other:
        return (
            len(shared) / len(every) >= 0.34 or shared in (set(mine), set(theirs)) or _have_like_arguments(mine, theirs)
        )
    if named.partition(" ")[0] == named_other.partition(" ")[0] and named.partition(" ")[0] in WITH_VERBS:
        return _is_misspelled(named, named_other) or len(shared) / len(every) >= 0.6
    return len(shared) / len(every) >= 0.5 or (_is_misspelled(mine[0], theirs[0]) and len(every) <= 4)


def _have_like_arguments(mine: list[str], theirs: list[str]) -> bool:
    """Whether an argument of one is a misspelling of one of the other's, or the same file elsewhere."""
    pairs = [(a, b) for a in mine[1:] for b in theirs[1:] if a != b and len(a) > 4]
    return any(
        _is_misspelled(a, b) or ("/" in a + b and os.path.basename(a) == os.path.basename(b) != "") for a, b in pairs
    )


def _is_misspelled(one: str, other: str) -> bool:
    """Whether two words differ by one letter that is missing, wrong or swapped with the next, or two such."""
    if one == other or abs(len(one) - len(other)) > 2 or min(len(one), len(other)) < 3:
        return False
    before = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, against in enumerate(other, 1):
            now.append(min(before[column] + 1, now[-1] + 1, before[column - 1] + (letter != against)))
        before = now
    return before[-1] <= 2
