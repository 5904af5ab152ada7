"""Programs by name on the command line: `zero-shot`, or the files of compiled ones."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rsso_dspy.errors import UsageError

if TYPE_CHECKING:
    from rsso_dspy.optimize.compiled import Compiled


def load_programs(texts: Sequence[str], unconfirmed: bool = False) -> "dict[str, Compiled | None]":
    """Program names to compiled programs, None for `zero-shot`; with `unconfirmed`, candidates that are not confirmed
    in place of the programs they started from. Raises `UsageError` for two of one name, and what `load` raises."""
    from rsso_dspy.optimize.compiled import derive_program_name, load
    from rsso_dspy.records import ZERO_SHOT

    found: dict[str, Compiled | None] = {}
    for text in texts:
        name = text if text == ZERO_SHOT else derive_program_name(text)
        if name in found:
            raise UsageError(f"--programs names {name!r} twice: programs are called after their files; rename one")
        found[name] = None if text == ZERO_SHOT else load(text)
        if unconfirmed and (compiled := found[name]):
            found[name] = compiled.select_candidate()
    return found


def describe_programs(programs: "Mapping[str, Compiled | None]", protocol: str, model: str) -> Iterator[str]:
    """Which program of each file is played, and what its verdict is worth under this protocol, by this acting model."""
    for name, compiled in programs.items():
        if compiled and (said := _describe_program(compiled, protocol, model)):
            yield f"{name} {said}"


def _describe_program(compiled: "Compiled", protocol: str, model: str) -> str:
    from rsso_dspy.optimize.compiled import ELSEWHERE

    found = compiled.confirmation
    if compiled.optimizer == ELSEWHERE:
        return ""
    if compiled.candidate and found:
        return (
            f"holds the program it started from, which is played: the candidate beside it is {found.verdict} "
            f"({found.why}); --unconfirmed plays that one"
        )
    if found is None and compiled.improved:
        return "has no verdict: it was compiled before gains were confirmed, and its gain may be luck"
    if found and found.verdict != "confirmed" and compiled.after != compiled.before:
        return f"is played as its candidate, which is {found.verdict} ({found.why})"
    if not compiled.improved:
        why = "found nothing better" if compiled.before else "ended before anything was scored"
        return f"holds the program it started from: its compile {why}"
    if (compiled.protocol.split()[0], compiled.model) == (protocol.split()[0], model):
        return ""  # other trials or another embedder of one preset are named where the run is planned
    return (
        f"was confirmed under {compiled.protocol} by {compiled.model}, and is played under {protocol} by {model}: the "
        "verdict says nothing about that"
    )
