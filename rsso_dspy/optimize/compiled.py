"""The compiled program as a file: DSPy's state, what it was compiled on and by, and what that achieved. Plain JSON, and
never a pickle: a file from somebody else can change prompts and nothing more.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

import dspy
from pydantic import TypeAdapter, ValidationError

from rsso_dspy.atomic import atomic_write_text
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.errors import DamagedFile, SplitError, UsageError
from rsso_dspy.experiment.run_programs import CompileEnvironment
from rsso_dspy.optimize.acceptance import Confirmation, Noise
from rsso_dspy.optimize.calibration import Calibration, rename_old_parts
from rsso_dspy.optimize.compiled_parts import KeptCandidate, PredictorState, ProgramScores, TriedProgram
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.fingerprint import fingerprint_program, fingerprint_state
from rsso_dspy.programs.methods import ADDITIONS
from rsso_dspy.programs.state import OLD_NAMES, is_plain_state, read_state, rename_predictors
from rsso_dspy.records import ZERO_SHOT, Usage
from rsso_dspy.safe_read import read_json

__all__ = [
    "Compiled",
    "KeptCandidate",
    "PredictorState",
    "ProgramScores",
    "TriedProgram",
    "check_stock_modules",
    "derive_program_name",
    "hash_schema",
    "load",
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
    """Whether a candidate was confirmed to be better than the program to improve. If not, `state` is of that program,
    and what did best on val is in `candidate`. (Files of version 0.1.0, without `confirmation`, were never confirmed:
    there it says that `state` did better on val.)"""
    ended_by: Literal["rollouts", "lm-calls", "cost", "interrupted", "error"] | None
    """What cut the compile short; None when the optimizer came to its end."""
    optimizer: str
    trials: int
    """Trials per rollout."""
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
    """The program to improve on val; None when not even that was played on all of it."""
    after: ProgramScores | None
    """What did best on val, confirmed or not."""
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
    """The offline rule-based model answered in some role; such scores say nothing about language models."""
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
    """Predictors that might be changed."""
    start: str = ZERO_SHOT
    """Fingerprint of the compiled program that was improved on; zero-shot when it was none."""
    seen: tuple[str, ...] = ()
    """Keys of the variants that program was compiled on."""
    max_idle: int | None = None
    """Steps in a row that might earn nothing before a trial was ended."""
    abandoned: dict[str, Usage] = field(default_factory=dict)
    """What attempts that were cut short cost besides, by role; not in `usage`."""
    confirm: tuple[str, ...] = ()
    """Variants that the chosen candidate was confirmed by, or not."""
    fresh: tuple[str, ...] = ()
    """Further variants that feedback came from, drawn when those of `train` were solved."""
    seeds: int = 1
    """Seeds that each val and confirm variant was played with."""
    placebos: int = 0
    """Rewordings without meaning that were to play beside the candidates."""
    confirmation: Confirmation | None = None
    """The verdict; None in a file of version 0.1.0, and for a program made elsewhere."""
    noise: Noise | None = None
    """What luck brought."""
    candidate: KeptCandidate | None = None
    """What did best on val, where it is not confirmed."""
    search_end: str | None = None
    """Why the search ended, in words."""
    teacher: str | None = None
    """Who played the train variants for demonstrations: `gold`, or a backend's acting model; None when nobody did."""
    demo_tokens: int | None = None
    """Tokens of all demonstrations of a predictor at most, under a teacher."""
    kind: str = KIND
    schema: int = field(default=SCHEMA)

    @property
    def calibration(self) -> tuple[str, ...]:
        """Keys of all variants that the program has seen, those of the program it was made from included."""
        return tuple(dict.fromkeys((*self.seen, *self.train, *self.fresh, *self.val, *self.confirm)))

    @property
    def chosen_state(self) -> dict[str, PredictorState]:
        """The state of what did best on val, confirmed or not."""
        return self.candidate.state if self.candidate else self.state

    @property
    def chosen_program(self) -> str:
        """Its fingerprint."""
        return self.candidate.program if self.candidate else self.program

    def select_candidate(self) -> "Compiled":
        """The same with the unconfirmed candidate as the program that is played; itself where there is none."""
        return replace(self, state=self.chosen_state, program=self.chosen_program, candidate=None)

    @property
    def protocol(self) -> str:
        """The protocol that it was compiled under."""
        return str(self.identity["protocol"]) or "a protocol that it does not name"

    @property
    def benchmark(self) -> Benchmark:
        """What it was compiled on; the default one when it does not say. Raises `UnknownName` when it is not
        installed."""
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
        """A program that was made elsewhere, by a DSPy optimizer or by hand, as a compiled program. `trainset` and
        `valset` are keys of the variants that it was made on (``boil::0``): runs refuse to play these. `environment`
        is what it was made in; any version of the default benchmark when None. Raises `UsageError` for modules that are
        not the method's own, `SplitError` for held-out variants."""
        check_stock_modules(agent)
        state = {name: {**each, "lm": None, "traces": [], "train": []} for name, each in agent.dump_state().items()}
        notes = ("made outside of rsso-dspy compile: what it was compiled on is what its maker said",)
        compiled = cls(
            method=agent.method.name,
            improved=True,
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
        """The program, for its method or for that with a constitution added, which has the same prompts. Raises
        `UsageError` when the state does not fit the method's predictors."""
        agent = Agent(method or self.method)
        own = Agent(self.method).predictors_by_name
        misfits = {name: _find_misfit(self.state.get(name), predictor.signature) for name, predictor in own.items()}
        misfits |= dict.fromkeys(self.state.keys() - own.keys(), "is no predictor")
        if wrong := [f"{name} {what}" for name, what in misfits.items() if what]:
            raise UsageError(f"its state does not fit the method {self.method}: {', '.join(wrong)}; compile again")
        agent.load_state({**agent.dump_state(), **self.state})
        return agent

    def save(self, path: Path | str) -> None:
        """Write the file whole."""
        atomic_write_text(Path(path), _FILE.dump_json(self, indent=1).decode() + "\n")


_FILE = TypeAdapter(Compiled)


def derive_program_name(path: Path | str) -> str:
    """What a program is called in runs and tables: its file's name. Raises `UsageError` for a name that no folder and
    no comma-separated list can hold, or that stands for something else."""
    name = Path(path).stem
    taken = (ZERO_SHOT, *ADDITIONS)
    if not re.fullmatch(r"[\w.-]+", name) or name in taken:
        raise UsageError(
            f"{path}: a compiled program is called after its file, and {name!r} is not a name of letters, digits, '.', "
            f"'_' and '-' other than {', '.join(taken)}; rename the file, or name another"
        )
    return name


def load(path: Path | str) -> Compiled:
    """The compiled program in a file. Raises `UsageError` for a file that is damaged, of another version, made for
    other signatures or changed since, `SplitError` when it was compiled on held-out variants."""
    path = Path(path)
    try:
        data = read_json(path)
    except OSError as error:
        raise UsageError(
            f"cannot read the compiled program {path}: {error.strerror}; `rsso-dspy compile -o FILE` makes one"
        ) from None
    except DamagedFile as error:
        raise UsageError(
            f"{path} is damaged or no compiled program ({error.why}); restore it, or compile again"
        ) from None
    if is_plain_state(data):
        return _load_saved_agent(path)
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(
            f"{path} is no compiled program; `rsso-dspy compile -o FILE` makes one, and agent.save(FILE) a state"
        )
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} is of schema version {data.get('schema')}, this program reads {SCHEMA}: "
            "use the rsso-dspy it was made with, or compile again"
        )
    try:
        compiled = _FILE.validate_python(rename_old_parts(data))
        if compiled.signatures in OLD_SCHEMAS:
            compiled = _convert_old_program(compiled)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UsageError(f"{path} is damaged ({where}: {first['msg']}); restore it, or compile again") from None
    try:
        _check_compiled(compiled)
    except SplitError as error:
        raise SplitError(f"{path}: {error}") from None
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    return compiled


OLD_SCHEMAS = {"dc875c820207", "bfdc3b4454f6"}
"""`hash_schema` of the two scaffolds in version 0.1.0, whose programs held eight predictors whatever the method."""

OLD_ZERO_SHOT = {"fb8ed3534803", "4058cf5903eb"}
"""Fingerprints of the zero-shot programs of version 0.1.0."""


def _convert_old_program(compiled: Compiled) -> Compiled:
    """A program of version 0.1.0, checked as that version did, as one of this version. Raises `UsageError` when its
    prompts were changed."""
    if (found := fingerprint_state(compiled.state)) != compiled.program:
        raise UsageError(_explain_changed_prompts(found))
    names = Agent(compiled.method).predictors_by_name
    state = {name: each for name, each in rename_predictors(compiled.state).items() if name in names}
    now = {**dict.fromkeys(OLD_ZERO_SHOT, fingerprint_program(Agent(compiled.method))), found: fingerprint_state(state)}
    return replace(
        compiled,
        state=state,
        program=now[found],
        start=now.get(compiled.start, compiled.start),
        tried=tuple(replace(tried, program=now.get(tried.program, tried.program)) for tried in compiled.tried),
        roles=tuple(OLD_NAMES.get(name, name) for name in compiled.roles if OLD_NAMES.get(name, name) in names),
        signatures=hash_schema(Agent(compiled.method)),
    )


def _load_saved_agent(path: Path) -> Compiled:
    """The program in a file that `agent.save` wrote."""
    saved = read_state(path)
    if not saved.method:
        raise UsageError(
            f"{path} does not say which method it is of: load it into an agent, Agent(METHOD).load(PATH), and save that"
        )
    agent = Agent(saved.method)
    if (missing := agent.predictors_by_name.keys() - saved.predictors.keys()) or (
        saved.predictors.keys() - agent.predictors_by_name.keys()
    ):
        raise UsageError(
            f"{path} does not fit the method {saved.method}"
            + (f": it lacks {', '.join(sorted(missing))}" if missing else "")
            + "; save an agent of that method, with its own modules"
        )
    agent.load_state({name: {**state, "lm": None} for name, state in saved.predictors.items()})
    return Compiled.from_agent(agent)


def check_stock_modules(agent: Agent) -> None:
    """Raise `UsageError` for an agent with modules or models of its own: a file holds prompts, nothing else."""
    stock = Agent(agent.method.name)
    if agent.predictors_by_name.keys() != stock.predictors_by_name.keys() or hash_schema(agent) != hash_schema(stock):
        raise UsageError(
            "its modules are not those of the method, and a compiled file holds prompts and demonstrations alone: "
            "play it from Python (agent(variant=...), dspy.Evaluate), and keep it with agent.save(PATH)"
        )


def _explain_changed_prompts(found: str) -> str:
    return (
        f"its prompts were changed after compiling, so its scores are another program's; restore it, or, to play "
        f'it all the same, write "program": "{found}" into it'
    )


def _check_compiled(compiled: Compiled) -> None:
    if "protocol" not in compiled.identity:
        raise UsageError("it is damaged (identity.protocol is missing); restore it, or compile again")
    of = compiled.benchmark
    if compiled.optimizer != ELSEWHERE:
        given = (compiled.train, compiled.val, compiled.confirm, compiled.fresh)
        train, val, confirm, fresh = (tuple(map(of.table.parse, keys)) for keys in given)
        Calibration(train, val, confirm, benchmark=of.name, spare=fresh)
    elif held_out := of.select_held_out((*compiled.train, *compiled.val)):
        raise SplitError(f"it was made on held-out variants: {', '.join(held_out)}")
    if held_out := of.select_held_out(compiled.seen):
        raise SplitError(f"the program it was made from was compiled on held-out variants: {', '.join(held_out)}")
    if compiled.signatures != hash_schema(Agent(compiled.method)):  # raises for an unknown method
        raise UsageError(
            f"it was compiled for other signatures (other fields) than those of {compiled.method} here; compile "
            "again, or use the rsso-dspy it was made with"
        )
    for each in (compiled, compiled.select_candidate()):
        if (found := fingerprint_program(each.agent())) != each.program:
            raise UsageError(_explain_changed_prompts(found))
    if compiled.confirmation and compiled.improved != (compiled.confirmation.verdict == "confirmed"):
        raise UsageError(
            f"its verdict is {compiled.confirmation.verdict!r} and `improved` says otherwise: it was changed after "
            "compiling; restore it, or compile again"
        )


def _find_misfit(state: PredictorState | None, signature: type[dspy.Signature]) -> str:
    """What keeps a state from fitting a predictor; empty when it fits."""
    if state is None:
        return "is missing"
    if len(state["signature"]["fields"]) != len(signature.fields):
        return "has another number of fields"
    strange = {key for demo in state["demos"] for key in demo} - signature.fields.keys() - {"augmented"}
    return f"has demonstrations with the fields {', '.join(sorted(strange))}" if strange else ""


def hash_schema(agent: Agent) -> str:
    """12 hexadecimal digits over names, kinds and types of the fields of all predictors: what a saved state has to fit.
    The words, which compiling changes, are not in it."""
    fields = {
        name: [
            (key, str(info.annotation), key in predictor.signature.output_fields)
            for key, info in predictor.signature.fields.items()
        ]
        for name, predictor in agent.predictors_by_name.items()
    }
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]
