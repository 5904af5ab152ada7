"""Describes the compiled programs that a command plays."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rsso_dspy.optimize.program_file import Compiled


def describe_programs(
    programs: "Mapping[str, Compiled | None]", protocol: str, model: str, trials: int
) -> Iterator[str]:
    """Yield the lines that a file needs: which of its programs is played, whether its verdict applies to this protocol
    and acting model, and whether its compile scored candidates by other trials than the run."""
    for name, compiled in programs.items():
        if compiled:
            said = _describe_program(compiled, protocol, model), _describe_trials(compiled.trials, trials)
            yield from (f"{name} {line}" for line in said if line)


def _describe_trials(scored: int, played: int) -> str:
    """Name the comparisons that follow from the trials of a compile (0 if unknown) and those of a unit."""
    if 0 < scored < played:
        return (
            f"was compiled by the best of {scored} trial{'s' * (scored > 1)}: the report compares programs by the "
            f"best of {played}, the protocol's, which is the main comparison, and again by the first {scored}"
        )
    if scored > played:
        return (
            f"was compiled by the best of {scored} trials, and a unit plays {played} here: nothing is compared as the "
            f"compile scored; for that, add --trials {scored} in the adaptation setting"
        )
    return ""


def _describe_program(compiled: "Compiled", protocol: str, model: str) -> str:
    found = compiled.confirmation
    if compiled.is_made_elsewhere:
        return ""
    if found is None:
        return "has no verdict: it was compiled by a version without confirmation, so its gain may be luck"
    if not compiled.improved:
        return f"plays its candidate, which is {found.verdict} ({found.why})"
    if (compiled.protocol.split()[0], compiled.model) == (protocol.split()[0], model):
        return ""  # other trials or another embedder of one preset are named where the run is planned
    return (
        f"was confirmed under {compiled.protocol} by {compiled.model}, but plays under {protocol} by {model}: "
        "its verdict does not apply there"
    )
