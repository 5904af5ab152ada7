"""What an output says went wrong: the one line that names it, what of it stays the same, and its words.

Words choose the line. They decide whether a command failed only where nobody says so (`commands.says_failed`).
"""

import re

from reflexion import TABLES

LONGEST, MOST_KEYWORDS = 240, 12  # letters of a trigger; words of an entry
_INVISIBLE = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\U000e0000-\U000e007f]"
)
_MARKS, _NOISE = TABLES["marks"], TABLES["noise"]
"""How a line names what went wrong, the best first; lines that never do."""
_STOP = frozenset(TABLES["words"]["stop"].split())


def clean_text(text: str) -> str:
    """Text without colours, cursor movements and characters that cannot be seen; lines stay."""
    return _INVISIBLE.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def pick_trigger(output: str, code: int | None = None) -> str:
    """The line of an output that says best what went wrong; the exit code in words where it says nothing."""
    if len(output) > 400_000:
        output = output[:100_000] + "\n" + output[-200_000:]
    lines = clean_text(output).split("\n")
    best, rank = "", len(_MARKS) + 1
    for line in lines[:200] + lines[200:][-400:]:
        line = line.strip()
        if len(line) > 4 * LONGEST:  # without the word that the cut goes through
            line = line[: 4 * LONGEST].rpartition(" ")[0] or line[:LONGEST]
        if line and not re.search(_NOISE, line):
            at = next((at for at, mark in enumerate(_MARKS) if re.search(mark, line)), len(_MARKS))
            if at < rank or at == len(_MARKS) == rank:  # of lines that name nothing, the last one
                best, rank = line, at
    return best or f"exit code {'unknown' if code is None else code}, no output"


def normalize_trigger(line: str) -> str:
    """What of a trigger stays the same the next time: paths, numbers, hashes, ports, times and addresses are out."""
    line = " ".join(clean_text(line).split())
    for pattern, sign in TABLES["changing"]:
        line = re.sub(pattern, sign, line)
    return line[:LONGEST]


def list_words(text: str) -> list[str]:
    """Words that a text may be found by: lower case, no plurals, no versions of Python, none that stands everywhere."""
    found = []
    for word in re.findall(r"[a-z][a-z0-9]*(?:[._+-][a-z0-9]+)*", text.lower()[:20_000]):
        word = re.sub(r"^python[\d.]+$", "python", word)
        is_plural = len(word) > 4 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
        found.append(word[:-1] if is_plural else word)
    return [word for word in dict.fromkeys(found) if len(word) > 1 and word not in _STOP]


def list_keywords(trigger: str, context: str = "", resolution: str = "") -> list[str]:
    """Words of an entry: those of its command first, then of its trigger, then of what helped."""
    text = f"{context}\n{normalize_trigger(trigger)}\n{resolution}"
    return list_words(re.sub(r"<(?:url|id|time|hash|path|host|n|\*)>", " ", text))[:MOST_KEYWORDS]
