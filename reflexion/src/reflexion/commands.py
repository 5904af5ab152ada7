"""Commands of a shell, so that the same one is known again, and which of two should have been the other.

normalize_command("cd web && npm run build 2>&1 | tail -5")    # "npm run build"
show_command("cd web && npm run build 2>&1 | tail -5")         # "cd web && npm run build"
name_program("git push origin main")                           # "git push"
are_near("pytest test/a.py", "pytest tests/a.py")              # True: a misspelling
"""

from __future__ import annotations

import os
import re
from zlib import crc32

from reflexion.secrets import LONGEST, STRUCK, WITH_VERBS

LONGEST_COMMAND = 300
"""Characters of a command as it is compared."""
LONGEST_SHOWN = 200
"""Characters of a command that is proposed: half of a longer one would be none."""

_WORD = re.compile(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'])+|[\"']")
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
_CHANGING = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"
    r"|/tmp/[^\s;&|]+|/var/folders/[^\s;&|]+|(?<![\w.-])\d{3,}(?![\w.-])"
)
"""Ids, hashes, temporary places and large numbers, which are others the next time."""

_QUERIES = """
cat cd date df du echo env file find git-diff git-log git-show git-status grep head less ls man more printenv ps pwd
rg stat tail tree type uname wc which whoami
"""
QUERIES = frozenset(_QUERIES.split())
"""Commands that look and change nothing: none of them is what helped."""
_TESTS = re.compile(r"(?:^|/)(?:py\.test|pytest|jest|vitest|mocha|tox|nox|unittest|rspec|phpunit|ctest|tests?)$")
_EDITS = re.compile(r"\b(?:sed|perl)\b.*\s-\w*i|(?<![<>&\d])>>?\s*(?!/dev/)[\w.*/]|<<|\btee\b|\bpatch\b|\bgit apply\b")
"""Commands that write into files, as an editor does."""
SAYS_NO = {
    "grep": {1}, "egrep": {1}, "fgrep": {1}, "rg": {1}, "ag": {1}, "zgrep": {1}, "pgrep": {1}, "diff": {1}, "cmp": {1},
    "test": {1}, "[": {1}, "[[": {1}, "which": {1}, "type": {1}, "command": {1}, "false": {1}, "expr": {1},
    "git diff": {1}, "git grep": {1}, "git merge-base": {1}, "git check-ignore": {1}, "git ls-remote": {2},
    "git rev-parse": set(), "timeout": {124}, "kill": {1}, "pkill": {1}, "comm": set(), "npm outdated": {1},
}  # fmt: skip
"""Programs to exit codes by which they answer no, and report no failure."""
_DANGERS = re.compile(
    r"--force\b(?!-reinstall)|--no-verify|--no-preserve-root|--insecure|\brm\b.*\s-\w*[rRf]|\s-delete\b"
    r"|\bgit\b.*\s(?:reset\b.*--(?:hard|merge|keep)|clean\b.*-\w*f|(?:checkout|restore|switch)\b.*\s(?:-f|--|\.)(?=\s|$)"
    r"|push\b.*\s(?:-\w*f\w*|\+\S+|--mirror|--delete|-d|:\S+)(?=\s|$)|branch\b.*-\w*D|stash\s+(?:drop|clear)|filter-)"
    r"|\b(?:docker|podman)\b.*\s(?:prune|rmi?)\b|\bkubectl\b.*\sdelete\b|\b(?:terraform|tofu)\b.*\sdestroy\b"
    r"|\bch(?:mod|own)\b.*\s(?:-\w*R|\d?\d\d[2367]\b|[ugoa,]*[oa][ugo]*[+=]\w*w)|\b(?:shred|mkfs|wipefs)\b|\bdd\b.*\bof=",
)
"""What destroys, forces or opens: never proposed where the failed command did not do it."""
_FAMILIES = (
    "npm pnpm yarn bun", "pip uv", "node deno bun tsx ts-node", "make gmake just", "docker podman", "apt apt-get",
    "docker-compose podman-compose", "grep egrep rg ag", "cc gcc clang", "c++ g++ clang++",
)  # fmt: skip
"""Programs that take each other's place."""
_WRAPPERS = re.compile(
    r"(?:npx|bunx|uvx|xvfb-run|env|timeout|dotenv|(?:npm|pnpm|yarn|mise) (?:dlx|exec|run)|(?:poetry|uv|pipenv|hatch"
    r"|conda|pdm|rye) run|bundle exec|python[\d.]* -m|docker[ -]compose (?:exec|run)|docker exec)\b"
)
"""What runs another command in its own surroundings."""


def split_words(command: str) -> list[str]:
    """Words as a shell would take them, roughly: quotes hold together, and whatever is unfinished is a word."""
    return [word.strip("\"'") or word for word in _WORD.findall(command[:LONGEST])]


def normalize_command(command: str, root: str = "") -> str:
    """One line that is equal for calls that are the same: no `cd` or settings before it, no `| tail` behind it, no
    temporary paths, hashes and large numbers, places relative to `root` and to the home folder."""
    line = split_before(shorten_places(command[:LONGEST], root))[1]
    return _CHANGING.sub("<*>", line)[:LONGEST_COMMAND].strip()


def compute_mark(command: str, root: str) -> int:
    """A number of 16 bits, the same for the same command: too little to guess from it what was struck out."""
    return crc32(normalize_command(command, root).encode("utf-8", "replace")) & 0xFFFF


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
    parts = [_CHANGING.sub("<*>", re.sub(r"\s*(?:&&|;)$", "", part)) for part in split_before(command)[0]]
    return [part for part in parts if part not in ("time", "nice", "command", "exec", "cd .", "cd ./")]


def show_command(command: str) -> str:
    """A command as it can be run again: what stands before it too, nothing of what passes. Empty for one that does not
    fit into one short line, or between backquotes."""
    parts, line = split_before(command)
    shown = _CHANGING.sub("<*>", " ".join([*parts, line]))
    return shown if len(shown) <= LONGEST_SHOWN and not re.search(r"[\n`]|<<", command.strip()) else ""


def hides_end(command: str) -> bool:
    """Whether the exit code is that of a `| tail` and the like: that of the command is not known."""
    return bool(_HIDING.search(command)) and "pipefail" not in command


def shorten_places(text: str, root: str = "") -> str:
    """The text with the project's folder as `.` and the home folder as `~`."""
    for place, sign in ((root, "."), (os.path.expanduser("~"), "~")):
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
    program, verb, _ = _split_program(words)
    return f"{program} {verb}".strip()


def _split_program(words: list[str]) -> tuple[str, str, list[str]]:
    """The program without its version, the word that says what it does, and the rest."""
    program = re.sub(r"(?<=^python)[\d.]+$|(?<=^pip)\d+$", "", os.path.basename(words[0]).removesuffix(".exe").lower())
    if program == "python" and words[1:2] == ["-m"]:
        return "python -m", "".join(words[2:3]), words[3:]
    at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), 0)
    if program in WITH_VERBS and at:
        return program, words[at].lower(), words[1:at] + words[at + 1 :]
    return program, "", words[1:]


def is_act(command: str) -> bool:
    """Whether a command may have changed something that another one depends on: it does not only look, run tests, or
    write into files, which counts as an edit."""
    program = name_program(command)
    if program == "cd":
        return command.split() not in (["cd"], ["cd", "."])
    return not (is_query(command) or is_test_run(command) or is_edit(command))


def is_edit(command: str) -> bool:
    """Whether a command writes into files, as an editor does."""
    return bool(_EDITS.search(command))


def is_test_run(command: str) -> bool:
    """Whether a command runs tests: fewer or other tests are no remedy for one that fails."""
    return any(_TESTS.search(word) for word in split_words(command)[:3])


def is_query(command: str) -> bool:
    """Whether a command only looks."""
    program = name_program(command)
    return program in QUERIES or program.replace(" ", "-") in QUERIES


def is_dangerous(command: str) -> bool:
    """Whether a command destroys, forces or opens something."""
    return bool(_DANGERS.search(re.sub(r"[\"'()]", " ", command)))


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


def is_same(kept: str, command: str) -> bool:
    """Whether a normalized command is the one that was kept, `***` standing for any value: at least more words of it
    are known than struck out."""
    if STRUCK not in kept:
        return kept == command
    mine, theirs = split_words(kept), split_words(command)
    if len(mine) != len(theirs) or 2 * mine.count(STRUCK) >= len(mine):
        return False
    return all(
        re.fullmatch(re.escape(word).replace(re.escape(STRUCK), ".+"), other, re.S)
        for word, other in zip(mine, theirs, strict=True)
    )


def are_near(one: str, other: str) -> bool:
    """Whether the second of two normalized commands may be what the first one should have been: the same with something
    before it, by another program of its family, or with a misspelled word, a file elsewhere or other options. Where it
    only names other things to work on, it is another task."""
    mine, theirs = split_words(one), split_words(other)
    if one == other or not mine or not theirs:
        return one == other
    if is_query(other) and name_program(other) != name_program(one):
        return False  # one that only looks explains nothing but itself
    if theirs[-len(mine) :] == mine:
        head = " ".join(theirs[: -len(mine)])
        begins = head.endswith(("&&", ";")) and not is_query(head) and not is_test_run(head)
        return begins or bool(_WRAPPERS.match(other))
    (program, verb, rest), (named, act, more) = _split_program(mine), _split_program(theirs)
    if any(program != named and {program, named} <= set(family.split()) for family in _FAMILIES):
        return {verb, *rest} - {"run"} == {act, *more} - {"run"}
    if not all(a == b or is_misspelled(a, b) for a, b in ((program, named), (verb, act))):
        return False
    return _are_near_arguments(rest, more, is_test_run(one))


def _are_near_arguments(mine: list[str], theirs: list[str], tests: bool) -> bool:
    """Whether what differs is a misspelling, a file elsewhere, or an option and what belongs to it."""
    lost, gained = [w for w in mine if w not in theirs], [w for w in theirs if w not in mine]
    lost_names, gained_names = ([word for word in words if word[0] != "-"] for words in (lost, gained))
    if lost_names and gained_names:
        pairs = list(zip(lost_names, gained_names, strict=False))
        return len(lost_names) == len(gained_names) and all(is_misspelled(*pair) for pair in pairs)
    lost_options, gained_options = len(lost) - len(lost_names), len(gained) - len(gained_names)
    if tests and (gained_names or lost_names or ((lost or gained) and not lost_options)):
        return False  # fewer tests
    return bool(not gained_names or gained_options) and len(lost_names) <= lost_options


def is_misspelled(one: str, other: str) -> bool:
    """Whether two words name a file in two places, or differ in one of their pieces by a letter that is missing, wrong
    or swapped. Pieces of less than four letters (`test_a`, `v2`) are names, and so are numbers."""
    if "/" in one + other and os.path.basename(one) == os.path.basename(other) != "":
        return True
    mine, theirs = re.split(r"[\W_]+", one), re.split(r"[\W_]+", other)
    pairs = [pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1]]
    if one == other or STRUCK in one + other or len(mine) != len(theirs) or len(pairs) != 1:
        return one != other and "".join(mine) == "".join(theirs)
    (a, b) = pairs[0]
    prefixed = any(x in (f"un{y}", f"de{y}") for x, y in ((a, b), (b, a)))
    if prefixed or re.sub(r"\D", "", a) != re.sub(r"\D", "", b) or not 4 <= max(len(a), len(b)) <= 40:
        return False
    from difflib import SequenceMatcher

    return sorted(a) == sorted(b) or SequenceMatcher(None, a, b).ratio() > 0.8
