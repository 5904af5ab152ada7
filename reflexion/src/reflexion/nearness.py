"""Whether one of two commands may be what the other one should have been.

are_near("npm run build", "pnpm run build")              # True
are_near("pytest test/a.py", "pytest tests/a.py")        # True: a misspelling
are_near("pytest tests/a.py", "pytest tests/b.py")       # False: another task, no remedy
"""

import os
import re

from reflexion.commands import WITH_VERBS, is_query, is_test_run, split_parts, split_words

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


def are_near(one: str, other: str) -> bool:
    """Whether the second of two normalized commands may be what the first one should have been. Where it only names
    other things to work on, it is another task, unless they are misspelled or the same file elsewhere."""
    if one == other:
        return True
    mine, theirs = split_parts(one), split_parts(other)
    if len(mine) != len(theirs):
        return _comes_last(one, other)
    differing = [pair for pair in zip(mine, theirs, strict=True) if pair[0] != pair[1]]
    return len(differing) == 1 and _are_near_parts(*differing[0])


def _comes_last(one: str, other: str) -> bool:
    """Whether the other line ends with this command, and changes something before it: `. env/bin/activate && make`."""
    head = other.removesuffix(one).rstrip()
    if not one or head == other.rstrip() or not head.endswith(("&&", ";")):
        return False
    return not any(is_query(part) or is_test_run(part) for part in split_parts(head))


def _are_near_parts(one: str, other: str) -> bool:
    mine, theirs = split_words(one), split_words(other)
    if not mine or not theirs:
        return False
    if theirs[-len(mine) :] == mine and _WRAPPERS.match(other):
        return True
    (program, verb, rest), (named, act, more) = _split_program(mine), _split_program(theirs)
    related = any({program, named} <= set(family.split()) for family in _FAMILIES)
    if related and program != named and {verb, *rest} - {"run"} == {act, *more} - {"run"}:
        return True
    if program != named and not related and not is_misspelled(program, named):
        return False
    if verb != act and not is_misspelled(verb, act):
        return False
    if rest == more:
        return True
    return _are_near_arguments(rest, more, len([*mine, *theirs]) - len([*rest, *more]), is_test_run(one))


def _split_program(words: list[str]) -> tuple[str, str, list[str]]:
    """The program without its version, the word that says what it does, and the rest."""
    program = re.sub(r"(?<=^python)[\d.]+$|(?<=^pip)\d+$", "", os.path.basename(words[0]).removesuffix(".exe").lower())
    if program == "python" and words[1:2] == ["-m"]:
        return "python -m", "".join(words[2:3]), words[3:]
    at = next((at for at, word in enumerate(words) if at and not word.startswith("-")), 0)
    if program in WITH_VERBS and at:
        return program, words[at], words[1:at] + words[at + 1 :]
    return program, "", words[1:]


def _are_near_arguments(mine: list[str], theirs: list[str], shared: int, tests: bool) -> bool:
    """Whether what differs is a misspelling, or an option and what belongs to it. `shared`: words of both commands that
    are the same already."""
    lost = [word for word in mine if word not in theirs]
    gained = [word for word in theirs if word not in mine]
    lost_names, gained_names = ([word for word in words if word[0] != "-"] for words in (lost, gained))
    if lost_names and gained_names:
        pairs = zip(lost_names, gained_names, strict=False)
        return len(lost_names) == len(gained_names) and all(
            is_misspelled(*pair) or _is_same_file(*pair) for pair in pairs
        )
    options = len(lost) - len(lost_names), len(gained) - len(gained_names)
    if tests and (gained_names or lost_names or not options[0]):
        return False  # fewer tests
    if (gained_names and not options[1]) or len(lost_names) > options[0]:
        return False
    share = (len({*mine} & {*theirs}) + shared / 2) / (len({*mine} | {*theirs}) + shared / 2)
    return share >= 0.34 or not lost or not gained


def _is_same_file(one: str, other: str) -> bool:
    return "/" in one + other and os.path.basename(one) == os.path.basename(other) != ""


def is_misspelled(one: str, other: str) -> bool:
    """Whether two words differ in one of their pieces, by a letter or two that are missing, wrong or swapped. Pieces of
    less than four letters (`test_a`, `v2`) are names, and so are numbers."""
    if (
        one == other
        or max(len(one), len(other)) > 80
        or one in (f"un{other}", f"de{other}")
        or other in (f"un{one}", f"de{one}")
    ):
        return False
    mine, theirs = re.split(r"[\W_]+", one), re.split(r"[\W_]+", other)
    if "".join(mine) == "".join(theirs):
        return True
    pairs = [pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1]]
    if len(mine) != len(theirs) or len(pairs) != 1:
        return False
    (a, b) = pairs[0]
    if re.sub(r"\D", "", a) != re.sub(r"\D", "", b) or max(len(a), len(b)) < 4:
        return False
    return _count_edits(a, b) <= (1 if min(len(a), len(b)) < 6 else 2)


def _count_edits(one: str, other: str) -> int:
    """Letters that are missing, wrong, or swapped with the next."""
    rows = [list(range(len(other) + 1))]
    for row, letter in enumerate(one, 1):
        now = [row]
        for column, against in enumerate(other, 1):
            best = min(rows[-1][column] + 1, now[-1] + 1, rows[-1][column - 1] + (letter != against))
            if row > 1 < column and letter == other[column - 2] and against == one[row - 2]:
                best = min(best, rows[-2][column - 2] + 1)
            now.append(best)
        rows.append(now)
    return rows[-1][-1]
