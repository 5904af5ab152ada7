"""What an output says went wrong: the one line that names it, what of it stays the same, and its words.

    line = pick_trigger(output, 1)             # 'npm error Missing script: "build"'
    normalize_trigger(line)                    # equal for another path, number, hash, port or time
    list_keywords(line, "npm run build")       # ["npm", "build", "missing", "script"]

Words choose the line. They never decide whether a command failed: hosts say so, or nothing is captured.
"""

import re

from reflexion.entry import MOST_KEYWORDS

LONGEST = 240
"""Characters of a trigger."""
HEAD, TAIL = 200, 400
"""Lines at the beginning and end of an output that are looked at."""

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-_])")
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\U000e0000-\U000e007f]"
)

_SAYS = (
    "unrecognized|unknown|invalid|illegal|undefined|unexpected|cannot|can't|could not|couldn't|unable|refused|missing"
    "|not found|no such|denied|does not exist|doesn't exist|is not|expected"
)
_MARKS = (
    (9, r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning)\b(?::|$)"),
    (8, r"(?i)^E\s{2,}\S|^error(?:\[\w+\])?:|(?:^|\s)(?:fatal|fatal error|error):"),
    (8, r"(?i)^npm (?:ERR!|error) (?!code|path|A complete|errno|syscall)"),
    (7, r"(?i)\*\*\*.*(?:Error|No rule|missing separator|Stop)|: command not found|: not found$"),
    (7, r"(?i)No such file|Permission denied|Missing script"),
    (6, f"(?i){_SAYS}"),
    (4, r"(?i)\b(?:error|failed|failure|exception|abort|panic)\b"),
)
"""How well a line names what went wrong, best first."""
_NOISE = (
    r"(?i)A complete log of this run|^npm (?:ERR!|error)\s*$|^\s*at\s|^\s*File \"|^Try '|^For more information|^hint:"
    r"|^usage:|^Traceback|^During handling|^=+|^-+|^\s*\^|^make(?:\[\d+\])?: (?:Entering|Leaving)|short test summary"
    r"|^note:|^warning:"
)

_TIME = r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
_CHANGING = (
    (r"\b\w[\w+.-]*://[^\s'\"<>)\]]+", "<url>"),
    (r"(?i)\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>"),
    (_TIME, "<time>"),
    (r"(?i)\b0x[0-9a-f]+\b", "<hash>"),
    (r"(?i)\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "<hash>"),
    (r"(?<![\w@])(?:[A-Za-z]:)?\\(?:[\w .@+-]+\\)*[\w.@+-]+", "<path>"),
    (r"(?<![\w@/])(?:~|\.{1,2})?(?:/[\w.@+~-]+)+/?|(?<![\w@/.-])[\w.-]+(?:/[\w.@+-]+)+/?", "<path>"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b|\blocalhost(?=:\d)", "<host>"),
    (r"(?i)(?<![\w.])\d+(?:[.,]\d+)*(?:ms|s|kb|mb|gb|%)?(?![\w])", "<n>"),
)  # fmt: skip
"""What differs from one time to the next, and what stands for it."""

_STOP_WORDS = """
a about after all also an and any are as at be been before but by can could did do does doing done for from get had
has have here how i if in into is it its just let like me my need no not now of off on one only or other our out
please run running same see should show so some such than that the their them then there these they this to too try
up us use used using want was we were what when where which while who why will with would you your file line error
errors failed failure code exit fix add new current most recent call last command warning instead again worked
"""
STOP = frozenset(_STOP_WORDS.split())
"""Words that stand everywhere."""
_TOKEN = re.compile(r"[a-z][a-z0-9]*(?:[._+-][a-z0-9]+)*", re.I)


def clean_text(text: str) -> str:
    """Text without colours, cursor movements and characters that cannot be seen; lines stay."""
    return _CONTROL.sub("", _ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))


def pick_trigger(output: str, code: int | None = None) -> str:
    """The line of an output that says best what went wrong; the exit code in words where it says nothing. Longer than
    a trigger: secrets are struck out of it before it is cut, for half of one is not known for what it is."""
    lines = [line.strip() for line in cut_output(output)]
    best, most = "", 0
    for line in lines:
        if not line or re.search(_NOISE, line):
            continue
        points = next((points for points, mark in _MARKS if re.search(mark, line)), 1)
        if points > most or (points == most == 1):  # of lines that name nothing, the last one
            best, most = line, points
    return best if best else f"exit code {'unknown' if code is None else code}, no output"


def cut_output(output: str) -> list[str]:
    """The lines that are looked at: of a long output its beginning and its end, each line up to a length."""
    if len(output) > 400_000:
        output = output[:100_000] + "\n" + output[-200_000:]
    lines = clean_text(output).split("\n")
    if len(lines) > HEAD + TAIL:
        lines = lines[:HEAD] + lines[-TAIL:]
    long = 4 * LONGEST  # without the word that the cut goes through
    return [line if len(line) <= long else line[:long].rpartition(" ")[0] or line[:LONGEST] for line in lines]


def normalize_trigger(line: str) -> str:
    """What of a trigger stays the same the next time: paths, numbers, hashes, ports, times and addresses are out."""
    line = " ".join(clean_text(line).split())
    for pattern, sign in _CHANGING:
        line = re.sub(pattern, sign, line)
    return line[:LONGEST]


def list_words(text: str) -> list[str]:
    """Words that a text may be found by: lower case, one form of singular and plural, none that stands everywhere."""
    found = (stem(word) for word in _TOKEN.findall(text.lower()[:20_000]))
    return [word for word in dict.fromkeys(found) if len(word) > 1 and word not in STOP]


def stem(word: str) -> str:
    """A word without the ending of its plural, and a Python without its version."""
    if word.startswith("python") and word[6:].replace(".", "").isdigit():
        return "python"
    return word[:-1] if len(word) > 4 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def list_keywords(trigger: str, context: str = "", resolution: str = "") -> list[str]:
    """Words of an entry: those of its command first, then of its trigger, then of what helped."""
    signs = re.compile(r"<(?:url|id|time|hash|path|host|n|\*)>")
    words = []
    for text in (context, normalize_trigger(trigger), resolution):
        words += list_words(signs.sub(" ", text))
    return list(dict.fromkeys(words))[:MOST_KEYWORDS]
