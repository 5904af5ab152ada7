"""Commands of a shell: so that the same one is known again, and which of two should have been the other.

normalize_command("cd web && npm run build 2>&1 | tail -5")    # "npm run build"; show_command keeps the `cd web &&`
are_near("pytest test/a.py", "pytest tests/a.py")              # True: a misspelling
"""

import os
import re
from zlib import crc32

from reflexion import TABLES
from reflexion.secrets import LONGEST, STRUCK, WITH_VERBS
from reflexion.triggers import clean_text

LONGEST_COMMAND, LONGEST_SHOWN = 300, 200
"""Letters of a command as it is compared, and of one that is proposed: half of a longer one would be none."""
MOST_ENDS = 20  # what is taken off a command before it and behind it: a line of thousands is nobody's
FIRST_LINES, LAST_LINES = 3, 8
"""Lines of an output in which a program says that it failed."""
_BEFORE = re.compile(
    r"^\s*(?:cd\s+[^;&|]+(?:&&|;)\s*|(?:sudo(?:\s+-[EHnS]+)*|time|nice|command|exec)\s+"
    r"|export\s+\w+=\S*\s*(?:&&|;)\s*|\w+=(?:\"[^\"]*\"|'[^']*'|[^\s\"'])*\s+)"
)
_ECHO = r"echo\b(?:\"[^\"]*\"|'[^']*'|[^;&|\"')}])*"
_SHORTENS = r"(?<!\|)\|&?\s*(?:tail|head|cat|less|tee)\b[^|;&]*"
_GOES_ON = rf"(?:\|\||;)\s*(?:(?:/usr)?(?:/bin/)?true\b|:(?=\s|$|[;&)}}])|exit 0\b|{_ECHO})"
_BEHIND = re.compile(rf"\s*(?:2>&1|2>\s*/dev/null|[12]?>\s*/dev/null|{_SHORTENS}|{_GOES_ON})\s*$")
_PIPED = re.compile(rf"(?:{_SHORTENS})\s*$")
_GONE_ON = re.compile(rf"{_GOES_ON}[\s;)}}'\"]*(?:\s+\d?>&?\s*[^\s>]+)*\s*$")
"""Ends of a line whose exit code is theirs, and not that of what stands before them: `| tail`, `|| true`."""
_CHANGING = re.compile(
    r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"
    r"|/tmp/[^\s;&|]+|/var/folders/[^\s;&|]+|(?<![\w.-])\d{3,}(?![\w.-])"
)
"""Ids, hashes, temporary places and large numbers, which are others the next time."""
_QUERIES, _SHOWS, _TOLERATED = (frozenset(TABLES["words"][name].split()) for name in ("queries", "shows", "tolerated"))
"""Commands that only look; others that print what somebody else wrote; those that remove, stop or make what may be
gone, or there, already."""
_TESTS = re.compile(r"(?:^|/)(?:py\.test|pytest|jest|vitest|mocha|tox|nox|unittest|rspec|phpunit|ctest|tests?)$")
EDITS = re.compile(r"\b(?:sed|perl)\b.*\s-\w*i|(?<![<>&\d])>>?\s*(?!/dev/)[\w.*/]|<<|\btee\b|\bpatch\b|\bgit apply\b")
_WRAPPERS = re.compile(
    r"(?:npx|bunx|uvx|xvfb-run|env|timeout|dotenv|python[\d.]* -m|docker-compose (?:exec|run)|docker exec"
    rf"|{TABLES['runners']})\b"
)
"""What runs another command in its own surroundings."""


def split_words(command: str) -> list[str]:
    """Words as a shell would take them, roughly: quotes hold together, and whatever is unfinished is a word."""
    words = re.findall(r"(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s\"'])+|[\"']", command[:LONGEST])
    return [word.strip("\"'") or word for word in words]


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
    parts: list[str] = []
    line, shorter = "", " ".join(command.split())
    for _ in range(MOST_ENDS):
        if not shorter or shorter == line:
            break
        line = shorter
        found = _BEFORE.match(line)
        shorter = _BEHIND.sub("", line[found.end() :] if found else line, count=1)
        parts += [found[0].strip()] if found and shorter else []
    return parts, line


def list_before(command: str) -> set[str]:
    """Parts that stand before a command and may have helped it, in the form in which they are compared."""
    parts = {_CHANGING.sub("<*>", re.sub(r"\s*(?:&&|;)$", "", part)) for part in split_before(command)[0]}
    return parts - {"time", "nice", "command", "exec", "cd .", "cd ./"}


def show_command(command: str) -> str:
    """A command as it can be run again: what stands before it too, nothing of what passes."""
    parts, line = split_before(command)
    shown = _CHANGING.sub("<*>", " ".join([*parts, line]))
    return shown if len(shown) <= LONGEST_SHOWN and not re.search(r"[\n`]|<<", command.strip()) else ""


def hides_end(command: str) -> bool:
    """Whether the exit code is that of a `| tail`, a `|| true` and the like: that of the command is not known."""
    line = " ".join(command.split())
    return bool(_GONE_ON.search(line) or ("pipefail" not in line and _PIPED.search(line)))


def is_tolerated(command: str) -> bool:
    """Whether the failure that a `|| true` hides only says that there was nothing to do, as that of `rm` does."""
    parts = re.split(r"&&|\|\||[|;\n]", split_before(command)[1])
    return name_program(parts[-1]).replace(" ", "-") in _TOLERATED


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
    return " ".join(_split_program(words)[:2]).strip() if words else ""


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
    if name_program(command) == "cd":
        return command.split() not in (["cd"], ["cd", "."])
    return not (_is_query(command) or _is_test_run(command) or EDITS.search(command))


def _is_test_run(command: str) -> bool:
    """Whether a command runs tests: fewer or other tests are no remedy for one that fails."""
    return any(_TESTS.search(word) for word in split_words(command)[:3])


def _is_query(command: str) -> bool:
    return name_program(command).replace(" ", "-") in _QUERIES


def is_dangerous(command: str) -> bool:
    """Whether it destroys, forces or opens something: never proposed where the failed command did not do it."""
    return bool(re.search("|".join(TABLES["dangers"]), re.sub(r"[\"'()]", " ", command)))


def answers_no(command: str, code: int | None, output: str = "") -> bool:
    """Whether this exit code is an answer of this command, as grep's 1 is, and no failure."""
    program = name_program(re.split(r"\|\||&&|[|;]", command)[-1].strip() or command)
    name = program.partition(" ")[0]
    codes = TABLES["says_no"].get(program, TABLES["says_no"].get(name, []))
    if code is None and codes:
        return not re.search(rf"(?m)^(?:{re.escape(name)}|fatal|error|usage)\b.*:", output[:20_000])
    return code in codes


def says_failed(command: str, output: str) -> bool:
    """Whether an output says that its command failed, where nobody else says how it ended: in words that only a program
    of this command uses of itself, at the beginning or the end; or as the exit code that `; echo $?` prints."""
    text = output if len(output) <= 40_000 else f"{output[:20_000]}\n{output[-20_000:]}"
    lines = [line[:500] for line in clean_text(text).split("\n") if line.strip() and not line.startswith("hint:")]
    line = split_before(command)[1]
    if lines and re.search(r";\s*echo\b[^;&|]*\$\?[\"'\s]*$", command):
        code = re.search(r"(?<![\d.])[1-9]\d{0,2}(?=\W*$)", lines[-1])
        return code is not None and not answers_no(line, int(code[0]))
    names, programs = _list_speakers(line)
    own = "|".join(map(re.escape, names)) or "(?!)"
    patterns = [pattern.replace("NAMES", own) for who, pattern in TABLES["failing"] if programs & set(who.split())]
    looked = "\n".join(lines if len(lines) <= FIRST_LINES + LAST_LINES else lines[:FIRST_LINES] + lines[-LAST_LINES:])
    if _is_query(re.split(r"&&|\|\||[|;\n]", line)[-1]):  # what it found is there, whatever it could not read
        patterns = [rf"\A(?:(?:{'|'.join(patterns)}|^(?i:usage|try)\b).*\n?)+\Z"]
    return any(re.search(pattern, looked, re.M) for pattern in patterns)


def _list_speakers(command: str) -> tuple[set[str], set[str]]:
    """Names under which a line of commands may speak of itself, and whose rows of the table hold for it: none but the
    first where its last program only shows what others wrote."""
    names: set[str] = set()
    shows = True
    for part in filter(str.strip, re.split(r"&&|\|\||[|;\n]", command)):
        shows = bool({name_program(part).replace(" ", "-"), part.split()[0]} & (_QUERIES | _SHOWS))
        is_shell = re.match(r"\s*\(|\s*(?:\S*/)?(?:ba|da|z|k)?sh\b", part)  # what it runs stands between quotes
        words = re.split(r"[\s\"'()]+", part) if is_shell else split_words(part)
        words = [os.path.basename(word) for word in words if word and word[0] not in "-<>$"]
        names |= {word for word in words[: 1 if shows else 4] if re.fullmatch(r"[A-Za-z_.][\w.+-]*", word)}
    return names, {"*"} if shows else {"*", *names, *(re.sub(r"[\d.-]+$", "", name) for name in names)}


def is_same(kept: str, command: str) -> bool:
    """Whether a normalized command is the one that was kept, `***` standing for any value: at least more words of it
    are known than struck out."""
    if STRUCK not in kept:
        return kept == command
    mine, theirs = split_words(kept), split_words(command)
    pattern = [re.escape(word).replace(re.escape(STRUCK), ".+") for word in mine]
    return 2 * mine.count(STRUCK) < len(mine) == len(theirs) and all(
        re.fullmatch(word, other, re.S) for word, other in zip(pattern, theirs, strict=True)
    )


def are_near(one: str, other: str) -> bool:
    """Whether the second of two normalized commands may be what the first one should have been: the same with something
    before it, by another program of its family, or with a misspelled word, a file elsewhere or other options. Where it
    only names other things to work on, it is another task."""
    mine, theirs = split_words(one), split_words(other)
    if one == other or not mine or not theirs:
        return one == other
    if _is_query(other) and name_program(other) != name_program(one):
        return False  # one that only looks explains nothing but itself
    if theirs[-len(mine) :] == mine:
        head = " ".join(theirs[: -len(mine)])
        begins = head.endswith(("&&", ";")) and not _is_query(head) and not _is_test_run(head)
        return begins or bool(_WRAPPERS.match(other))
    (program, verb, rest), (named, act, more) = _split_program(mine), _split_program(theirs)
    if any(program != named and {program, named} <= set(family.split()) for family in TABLES["families"]):
        return {verb, *rest} - {"run"} == {act, *more} - {"run"}
    if not all(a == b or _is_misspelled(a, b) for a, b in ((program, named), (verb, act))):
        return False
    lost, gained = ([w for w in a if w not in b] for a, b in ((rest, more), (more, rest)))
    lost_names, gained_names = ([word for word in words if word[0] != "-"] for words in (lost, gained))
    if lost_names and gained_names:  # a misspelling, or a file elsewhere
        return len(lost_names) == len(gained_names) and all(map(_is_misspelled, lost_names, gained_names))
    lost_options, gained_options = len(lost) - len(lost_names), len(gained) - len(gained_names)
    if _is_test_run(one) and (gained_names or lost_names or ((lost or gained) and not lost_options)):
        return False  # fewer tests
    return bool(not gained_names or gained_options) and len(lost_names) <= lost_options


def _is_misspelled(one: str, other: str) -> bool:
    """Whether two words name a file in two places, or differ in one of their pieces by a letter that is missing, wrong
    or swapped. Pieces of less than four letters (`test_a`, `v2`) are names, and so are numbers."""
    if "/" in one + other and os.path.basename(one) == os.path.basename(other) != "":
        return True
    mine, theirs = re.split(r"[\W_]+", one), re.split(r"[\W_]+", other)
    pairs = [pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1]]
    if one == other or STRUCK in one + other or len(mine) != len(theirs) or len(pairs) != 1:
        return one != other and "".join(mine) == "".join(theirs)
    (a, b) = pairs[0]
    opposite = any(x in (f"un{y}", f"de{y}") for x, y in ((a, b), (b, a)))
    if opposite or re.sub(r"\D", "", a) != re.sub(r"\D", "", b) or not 4 <= max(len(a), len(b)) <= 40:
        return False
    from difflib import SequenceMatcher

    return sorted(a) == sorted(b) or SequenceMatcher(None, a, b).ratio() > 0.8
