"""The compiled program as a file: DSPy's state, what it was compiled on and by, and what that achieved. Plain JSON, and
never a pickle: a file from somebody else can change prompts and nothing more.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rsso_dspy.environments.scienceworld.tasks import parse
from rsso_dspy.errors import UsageError
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol.store import write_whole
from rsso_dspy.trajectory import Usage

SCHEMA = 1
"""Version of the file. Another version is refused by name."""

KIND = "rsso-dspy compiled program"


@dataclass(frozen=True, slots=True)
class Scores:
    """A program on the variants to choose by."""

    metric: float
    """Mean of the metric, 0 to 1."""
    mean: float
    """Mean of the best accumulator over the trials: the paper's Mean, 0 to 100."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate that was played on all variants to choose by."""

    program: str
    scores: Scores


@dataclass(frozen=True, slots=True)
class Environment:
    """What a program was compiled in; it is of use nowhere else."""

    name: str
    version: str
    simplification: str


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program and its history. The content of one JSON file."""

    method: str
    improved: bool
    """Whether anything better than the program to improve was found. If not, that one is in `state`."""
    ended_by: Literal["rollouts", "lm-calls", "interrupted", "error"] | None
    """What cut the compile short; None when the optimizer came to its end."""
    optimizer: str
    trials: int
    """Trials per rollout."""
    steps: int
    """Steps per trial at most; fewer where the protocol allows fewer."""
    seed: int
    max_rollouts: int
    max_lm_calls: int | None
    learn: tuple[str, ...]
    """Variants that were learnt from."""
    choose: tuple[str, ...]
    """Variants that candidates were chosen by."""
    before: Scores | None
    """The program to improve; None when not even that was played on all variants."""
    after: Scores | None
    tried: tuple[Tried, ...]
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
    """The offline rule-based model answered in some role; such scores say nothing about language models."""
    environment: Environment
    signatures: str
    """Hash of the fields of the method's predictors; see `schema_hash`."""
    identity: dict[str, Any]
    """Protocol, configuration, prompts and versions that the compile depends on."""
    versions: dict[str, str]
    program: str
    """Fingerprint."""
    state: dict[str, Any]
    """DSPy's state of the program."""
    kind: str = KIND
    schema: int = field(default=SCHEMA)

    @property
    def calibration(self) -> tuple[str, ...]:
        """Keys of all variants that the program has seen."""
        return (*self.learn, *self.choose)

    @property
    def changes(self) -> tuple[str, ...]:
        """What differs from the zero-shot program, predictor by predictor."""
        zero_shot = Agent(self.method).dump_state()
        found = []
        for name, state in self.state.items():
            if state["signature"] != zero_shot[name]["signature"]:
                found.append(f"instruction of {name}")
            if state["demos"]:
                found.append(f"{len(state['demos'])} demonstrations of {name}")
        return tuple(found)

    def agent(self) -> Agent:
        """The program. Raises `UsageError` when the state does not fit the method's predictors."""
        agent = Agent(self.method)
        wanted = agent.dump_state()
        strange = [
            name
            for name, state in self.state.items()
            if name not in wanted or state.get("lm") or not state.keys() <= wanted[name].keys()
        ]
        if strange or wanted.keys() != self.state.keys():
            names = strange or sorted(wanted.keys() ^ self.state.keys())
            raise UsageError(f"the compiled state of {', '.join(names)} does not fit the predictors of {self.method}")
        agent.load_state(self.state)
        return agent

    def save(self, path: Path | str) -> None:
        """Write the file whole."""
        write_whole(Path(path), _FILE.dump_json(self, indent=1).decode() + "\n")


_FILE = TypeAdapter(Compiled)


def load(path: Path | str) -> Compiled:
    """The compiled program in a file. Raises `UsageError` for a file that is damaged, of another version or made for
    other signatures, `UnknownName` for an unknown method, `SplitError` when it was compiled on held-out variants."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text)
    except OSError as error:
        raise UsageError(
            f"cannot read the compiled program {path}: {error.strerror}; `rsso-dspy compile -o {path}` makes one"
        ) from None
    except ValueError as error:
        raise UsageError(
            f"{path} is damaged or no compiled program ({error}); restore it, or compile again with -o {path}"
        ) from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(f"{path} is no compiled program; `rsso-dspy compile -o FILE` makes one")
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} is of schema version {data.get('schema')}, this program reads {SCHEMA}: "
            "use the rsso-dspy it was made with, or compile again"
        )
    try:
        compiled = _FILE.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path} is damaged ({where}: {first['msg']}); restore it, or compile again") from None
    if compiled.signatures != schema_hash(Agent(compiled.method)):
        raise UsageError(
            f"{path} was compiled for other signatures (other fields) than those of {compiled.method} here: compile "
            "again, or use the rsso-dspy it was made with"
        )
    try:
        Calibration(tuple(map(parse, compiled.learn)), tuple(map(parse, compiled.choose)))
        compiled.agent()
    except UsageError as error:
        raise type(error)(f"{path}: {error}") from None
    return compiled


def check_fits(compiled: Compiled, source: str, methods: Sequence[str], environment: Environment) -> None:
    """Raise `UsageError` when a program cannot play the arms it is asked for: another method, another environment."""
    if other := [name for name in methods if name != compiled.method]:
        raise UsageError(
            f"{source} was compiled for the method {compiled.method}, not for {', '.join(other)}: "
            f"use --methods {compiled.method}, or compile one for each"
        )
    if compiled.environment != environment:
        raise UsageError(
            f"{source} was compiled in another environment ({_text(compiled.environment)}) than this one "
            f"({_text(environment)}): set the same simplification, or compile again"
        )


def schema_hash(agent: Agent) -> str:
    """12 hexadecimal digits over names, kinds and types of the fields of all predictors: what a saved state has to fit.
    The words, which compiling changes, are not in it."""
    fields = {
        name: [
            (key, str(info.annotation), key in predictor.signature.output_fields)
            for key, info in predictor.signature.fields.items()
        ]
        for name, predictor in agent.named_predictors()
    }
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]


def _text(environment: Environment) -> str:
    return f"{environment.name} {environment.version}, {environment.simplification}"
