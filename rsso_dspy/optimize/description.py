"""A compiled program for people to read: its words in each role, and where they came from.

    describe_program(load("compiled.json")).roles["actor"].instruction

Records to records; nothing is read, played or printed here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rsso_dspy.optimize.compiled import Compiled, PredictorState
from rsso_dspy.optimize.prompt_texts import list_changed_fields, list_demonstrations
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program


@dataclass(frozen=True, slots=True)
class RolePrompt:
    """One predictor's words."""

    name: str
    changed: bool
    """Its instruction or the words of its fields differ from the zero-shot program's."""
    instruction: str
    zero_shot: str
    """The instruction of the zero-shot program."""
    fields: tuple[str, ...]
    """Fields whose words differ from the zero-shot program's."""
    demonstrations: tuple[dict[str, str], ...]
    """Field to text."""


@dataclass(frozen=True, slots=True)
class ComparedProgram:
    """A program that was compared."""

    program: str
    metric: float
    mean: float
    zero_shot: bool
    chosen: bool
    per_variant: Mapping[str, float]
    """Calibration variant to metric; empty where the file does not hold it."""
    number: int
    """Number in the order of trying, the same in the compile's progress."""
    placebo: bool = False
    dropped: bool = False
    """Not played on all of val."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is shown of a compiled program."""

    compiled: Compiled
    candidates: tuple[ComparedProgram, ...]
    """In the order in which they were first tried."""
    roles: Mapping[str, RolePrompt]

    @property
    def protocol(self) -> str:
        return self.compiled.protocol

    def to_json_data(self) -> dict[str, Any]:
        """JSON data: the file's account of the compile, with candidates and roles instead of DSPy's state."""
        whole = asdict(self.compiled)
        account = {
            key: whole[key] for key in whole if key not in ("kind", "schema", "state", "candidate", "tried", "identity")
        }
        roles = {name: asdict(role) for name, role in self.roles.items()}
        return {**account, "protocol": self.protocol, "candidates": list(map(asdict, self.candidates)), "roles": roles}


def describe_program(compiled: Compiled) -> Description:
    """Describe one program."""
    zero_shot = Agent(compiled.method)
    state, start = zero_shot.dump_state(), fingerprint_program(zero_shot)
    roles = {name: _describe_role(name, compiled.chosen_state[name], state[name]) for name in state}
    return Description(compiled, tuple(_list_candidates(compiled, start)), roles)


def describe_verdict(compiled: Compiled) -> str:
    """The verdict in one line."""
    found = compiled.confirmation
    if found is None:
        return "verdict: none; it was made elsewhere"
    return f"verdict: {found}"


def describe_noise(compiled: Compiled) -> Iterator[str]:
    """What placebos gained, in lines; no line where none was played."""
    noise = compiled.noise
    if noise is None or not noise.gains:
        return
    gains = ", ".join(f"{100 * gain:+.1f}" for gain in noise.gains)
    told = "the rule-based player heeds none, so this shows no luck" if compiled.rule_based else "so much is luck"
    yield f"noise: a rewording that means nothing gained {gains} points on val; {told}"
    if noise.won:
        yield (
            "WARNING: that placebo did better on val than every candidate: what val tells here is noise. It is not "
            "chosen and cannot be confirmed."
        )


def _list_candidates(compiled: Compiled, start: str) -> Iterator[ComparedProgram]:
    for place, tried in enumerate(compiled.tried):
        yield ComparedProgram(
            tried.program,
            tried.scores.metric,
            tried.scores.mean,
            zero_shot=tried.program == start,
            chosen=tried.program == compiled.chosen_program,
            per_variant=tried.per_variant,
            number=place if tried.number is None else tried.number,
            placebo=tried.placebo,
            dropped=tried.dropped,
        )


def _describe_role(name: str, state: PredictorState, zero_shot: PredictorState) -> RolePrompt:
    return RolePrompt(
        name,
        state["signature"] != zero_shot["signature"],
        state["signature"]["instructions"],
        zero_shot["signature"]["instructions"],
        list_changed_fields(zero_shot, state),
        list_demonstrations(state),
    )
