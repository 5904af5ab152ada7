"""The neutral form of what was played: it names none of the package's classes.

A recording is a file `recordings/NAME.jsonl.xz`, one JSON object a line:

    {"job": ...}                                the first line: what is played. `kind` (run, compile, constitution),
                                                `settings` as `--set` takes them, and what that kind needs
    {"call": n, "role", "messages", "settings", "answer", "usage"}
                                                every request in order, as the model gets it, with its answer and its
                                                usage (tokens of input and output)
    {"trial": n, "unit": {...}, "of", "outcome", "points", "steps", "memories", ...}
                                                every finished trial, after the calls that it took
    {"rollout" ...}, {"program" ...}, {"rules" ...}
                                                results of a compile and of a constitution's build

Values that are empty or 0 are left out. A memory is texts, ids and counters.
"""

import json
import lzma
from collections.abc import Iterable
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any

Data = dict[str, Any]

FOLDER = Path(__file__).parent / "recordings"
ENDING = ".jsonl.xz"
SHOWN, MOST = 900, 12
"""Maximum characters of a line that differs, and maximum lines shown of a difference."""


def list_recordings(folder: Path = FOLDER) -> list[str]:
    return sorted(file.name.removesuffix(ENDING) for file in folder.glob(f"*{ENDING}"))


def read_lines(name: str, folder: Path = FOLDER) -> list[Data]:
    with lzma.open(folder / f"{name}{ENDING}", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_lines(name: str, lines: Iterable[Data], folder: Path = FOLDER) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
    (folder / f"{name}{ENDING}").write_bytes(lzma.compress(text.encode(), preset=6))


class Recorder:
    """Lets the offline player answer, and keeps calls and results in order."""

    def __init__(self, job: Data, answer: Any):
        self.lines: list[Data] = [{"job": job}]
        self.answer_call = answer
        self.calls = 0

    def answer(self, call: Data) -> Data:
        self.calls += 1
        said = self.answer_call(call, self.calls)
        sent = sum(len(each["content"]) for each in call["messages"])
        self.lines.append({"call": self.calls, **call, "answer": said, "usage": [sent // 4, len(said) // 4]})
        return self.lines[-1]

    def tell(self, result: Data) -> None:
        self.lines.append(result)


class Differs(BaseException):
    """What is played is not what was recorded. No runner takes it for a model's error."""


class Replayer:
    """Answers from a recording, in its order, and compares every request and every result with it."""

    def __init__(self, lines: list[Data]):
        self.lines = lines
        self.place = 1
        self.difference = ""

    def answer(self, call: Data) -> Data:
        there = self._next(f"call of the {call['role']}")
        known = {name: there.get(name) for name in call}
        if known != call:
            asks = "" if there.get("role") == call["role"] else f", where the {call['role']} asks now,"
            self._fail(f"call {there.get('call')} of the {there.get('role')}{asks}", known, call)
        return there

    def tell(self, result: Data) -> None:
        result = json.loads(json.dumps(result))
        there = self._next("result")
        if there != result:
            self._fail("the result", there, result)

    def finish(self) -> None:
        """Raise `Differs` if a difference was found or something recorded was not played."""
        if not self.difference and self.place < len(self.lines):
            self._fail("the end", self.lines[self.place], {})
        if self.difference:
            raise Differs(self.difference)

    def _next(self, what: str) -> Data:
        if self.difference:
            raise Differs(self.difference)
        if self.place == len(self.lines):
            self._fail("the end", {}, {"more": f"a {what} that was not recorded"})
        self.place += 1
        return self.lines[self.place - 1]

    def _fail(self, where: str, recorded: Data, now: Data) -> None:
        self.difference = f"{self._name_unit()}: {where} differs\n" + "\n".join(list_difference(recorded, now))
        raise Differs(self.difference)

    def _name_unit(self) -> str:
        """The unit that the current line belongs to: that of the next result."""
        rest = self.lines[self.place - 1 :]
        result = next((line for line in rest if "call" not in line and "job" not in line), {})
        if "rollout" in result:
            return f"rollout of candidate {result['candidate']} on {result['rollout']}"
        unit = result.get("unit", {})
        names = filter(None, (unit.get("arm"), unit.get("variant") or unit.get("training")))
        return " ".join([*names, f"trial {result['trial']}" if "trial" in result else "the end of the job"])


def list_difference(recorded: Any, now: Any) -> list[str]:
    """The first lines that differ, of texts line by line."""
    texts = (json.dumps(each, indent=1, sort_keys=True, ensure_ascii=False) for each in (recorded, now))
    lines = [text.replace("\\n", "\n").splitlines() for text in texts]
    return [line[:SHOWN] for line in islice(unified_diff(*lines, lineterm="", n=1), 2, MOST)]
