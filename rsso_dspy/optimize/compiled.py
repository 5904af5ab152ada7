"""The compiled program as a file: DSPy's state, how it was compiled and on which variants, and its scores. Plain JSON,
never a pickle: a file from somebody else can change prompts and nothing more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field, TypeAdapter

from rsso_dspy.bounds import MOST_TRIALS
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.errors import SplitError, UsageError
from rsso_dspy.files import atomic_write_text
from rsso_dspy.optimize.acceptance import Confirmation, Noise
from rsso_dspy.optimize.compiled_parts import KeptCandidate, PredictorState, ProgramScores, TriedProgram
from rsso_dspy.optimize.program_schema import check_stock_modules, find_misfit, hash_schema
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_state
from rsso_dspy.records import ZERO_SHOT, Usage
from rsso_dspy.store.guards import CompileEnvironment

__all__ = [
    "ELSEWHERE",
    "FILE",
    "KIND",
    "SCHEMA",
    "Compiled",
    "KeptCandidate",
    "PredictorState",
    "ProgramScores",
    "TriedProgram",
]

SCHEMA = 1
"""Version of the file. Another version is refused by name."""

KIND = "rsso-dspy compiled program"

ELSEWHERE = "dspy"
"""Stands for the optimizer of a program that `rsso-dspy compile` did not make."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program and its history. The content of one JSON file."""

    method: str
    improved: bool
    """Whether a candidate was confirmed to be better than the program to improve. If not, `state` is that program's,
    and the best candidate on val is in `candidate`. False for a program made elsewhere, which is in `state` and was
    compared with nothing."""
    ended_by: Literal["rollouts", "lm-calls", "cost", "interrupted", "error"] | None
    """What cut the compile short; None when the optimizer finished."""
    optimizer: str
    trials: Annotated[int, Field(strict=True, ge=0, le=MOST_TRIALS)]
    """Trials per rollout; 0 for a program made elsewhere."""
    steps: int
    """Steps per trial at most; fewer where the protocol allows fewer."""
    seed: int
    notes: tuple[str, ...]
    """What a reader of the scores should know."""
    max_rollouts: int
    max_lm_calls: int | None
    train: tuple[str, ...]
    """Variants that feedback came from."""
    val: tuple[str, ...]
    """Variants that candidates were chosen by."""
    before: ProgramScores | None
    """Scores on val of the program to improve; None when it was not played on all of val."""
    after: ProgramScores | None
    """Scores on val of the best candidate, confirmed or not."""
    tried: tuple[TriedProgram, ...]
    rollouts: int
    """Rollouts spent."""
    lm_calls: int
    usage: dict[str, Usage]
    """Calls and tokens by role."""
    model: str
    """The acting model, ``provider/model``."""
    proposer: str
    """The model that proposed instructions."""
    rule_based: bool
    """Whether the offline rule-based model answered in some role; such scores say nothing about language models."""
    environment: CompileEnvironment | None
    """None when it was made outside of `rsso-dspy compile`."""
    signatures: str
    """Hash of the fields of the method's predictors; see `hash_schema`."""
    identity: dict[str, Any]
    """Protocol, configuration, prompts and versions that the compile depends on."""
    versions: dict[str, str]
    program: str
    """Fingerprint of the state."""
    state: dict[str, PredictorState]
    """DSPy's state of the program, by predictor."""
    max_cost: float | None = None
    """US dollars."""
    roles: tuple[str, ...] = ()
    """Predictors that the optimizer was allowed to change."""
    start: str = ZERO_SHOT
    """Fingerprint of the compiled program that the compile started from, or zero-shot."""
    seen: tuple[str, ...] = ()
    """Keys of the variants that the program of `start` was compiled on."""
    max_idle: int | None = None
    """Steps in a row without reward after which a trial was ended; None for no limit."""
    abandoned: dict[str, Usage] = field(default_factory=dict)
    """Cost of attempts at this compile that were cut short, by role; not in `usage`."""
    confirm: tuple[str, ...] = ()
    """Variants that the chosen candidate and the program to improve were compared on."""
    fresh: tuple[str, ...] = ()
    """Further variants that feedback came from, drawn once those of `train` were solved."""
    seeds: int = 1
    """Number of seeds that each val and confirm variant was played with."""
    placebos: int = 0
    """How many placebos were asked for."""
    confirmation: Confirmation | None = None
    """The verdict; None for a program made elsewhere."""
    noise: Noise | None = None
    """What placebos gained, and how much equally good programs differ."""
    candidate: KeptCandidate | None = None
    """The best candidate on val, where it is not confirmed."""
    search_end: str | None = None
    """Why the search ended, in words."""
    teacher: str | None = None
    """Who played the train variants for demonstrations: `gold`, or a backend's acting model; None when nobody did."""
    demo_tokens: int | None = None
    """Maximum tokens of all demonstrations of a predictor, under a teacher."""
    kind: str = KIND
    schema: int = field(default=SCHEMA)

    def __repr__(self) -> str:
        said = self.confirmation or ("made elsewhere" if self.is_made_elsewhere else "no verdict")
        return f"Compiled({self.method}, {self.optimizer}, {said})"

    @property
    def is_made_elsewhere(self) -> bool:
        """Whether something other than `rsso-dspy compile` made it: it was not scored or confirmed here."""
        return self.optimizer == ELSEWHERE

    @property
    def calibration(self) -> tuple[str, ...]:
        """Keys of all variants that the program has seen, those of the program it was made from included."""
        return tuple(dict.fromkeys((*self.seen, *self.train, *self.fresh, *self.val, *self.confirm)))

    @property
    def chosen_state(self) -> dict[str, PredictorState]:
        """The state of the best candidate on val, confirmed or not."""
        return self.candidate.state if self.candidate else self.state

    @property
    def chosen_program(self) -> str:
        """Fingerprint of `chosen_state`."""
        return self.candidate.program if self.candidate else self.program

    def select_candidate(self) -> "Compiled":
        """A copy that plays the unconfirmed candidate; without one, the compiled program itself."""
        return replace(self, state=self.chosen_state, program=self.chosen_program, candidate=None)

    @property
    def protocol(self) -> str:
        """Id of the protocol that it was compiled under."""
        return str(self.identity["protocol"]) or "a protocol that it does not name"

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark it was compiled on; the default one when the file does not say. Raises `UnknownName` when it is
        not installed."""
        return get_benchmark(self.environment.name if self.environment else DEFAULT)

    @property
    def changes(self) -> tuple[str, ...]:
        """What the chosen candidate changes in the zero-shot program, predictor by predictor."""
        zero_shot = Agent(self.method).dump_state()
        found = []
        for name, state in self.chosen_state.items():
            if state["signature"] != zero_shot[name]["signature"]:
                found.append(f"instruction of {name}")
            if state["demos"]:
                found.append(f"{len(state['demos'])} demonstrations of {name}")
        return tuple(found)

    @classmethod
    def from_agent(
        cls,
        agent: Agent,
        trainset: Sequence[str] = (),
        valset: Sequence[str] = (),
        environment: CompileEnvironment | None = None,
    ) -> "Compiled":
        """Wrap a program that was made elsewhere, by a DSPy optimizer or by hand, as a compiled program. `trainset` and
        `valset` are keys of the variants that it was made on (``boil::0``): runs refuse to play these. `environment` is
        the benchmark it was made in; None means any version of the default benchmark. It counts as not `improved`,
        because nothing was compared; runs play it all the same. Raises `UsageError` for modules
        that are not the method's own, `SplitError` for held-out variants."""
        check_stock_modules(agent)
        state = {name: {**each, "lm": None, "traces": [], "train": []} for name, each in agent.dump_state().items()}
        notes = ("made outside of rsso-dspy compile: what it was compiled on is what its maker said",)
        compiled = cls(
            method=agent.method.name,
            improved=False,
            ended_by=None,
            optimizer=ELSEWHERE,
            trials=0,
            steps=0,
            seed=0,
            notes=notes,
            max_rollouts=0,
            max_lm_calls=None,
            train=tuple(trainset),
            val=tuple(valset),
            before=None,
            after=None,
            tried=(),
            rollouts=0,
            lm_calls=0,
            usage={},
            model="",
            proposer="",
            rule_based=False,
            environment=environment,
            signatures=hash_schema(agent),
            identity={"protocol": ""},
            versions={},
            program=fingerprint_state(state),
            state=cast(dict[str, PredictorState], state),
        )
        if held_out := compiled.benchmark.select_held_out(compiled.calibration):
            raise SplitError(f"it was made on held-out variants: {', '.join(held_out)}")
        return compiled

    def agent(self, method: str | None = None) -> Agent:
        """The program, for its own method or for that method with a constitution added, which has the same prompts.
        Raises `UsageError` when the state does not fit the method's predictors."""
        agent = Agent(method or self.method)
        own = Agent(self.method).predictors_by_name
        misfits = {name: find_misfit(self.state.get(name), predictor.signature) for name, predictor in own.items()}
        misfits |= dict.fromkeys(self.state.keys() - own.keys(), "is no predictor")
        if wrong := [f"{name} {what}" for name, what in misfits.items() if what]:
            raise UsageError(f"its state does not fit the method {self.method}: {', '.join(wrong)}; compile again")
        agent.load_state({**agent.dump_state(), **self.state})
        return agent

    def save(self, path: Path | str) -> None:
        """Write the file atomically."""
        atomic_write_text(Path(path), FILE.dump_json(self, indent=1).decode() + "\n")


FILE = TypeAdapter(Compiled)
