"""The compiled program as a file: DSPy's state, how it was compiled and on which variants, and its scores. Plain JSON,
which is checked as a whole before any of it is used: a file from somebody else can change prompts and nothing more."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from math import sqrt
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal, cast

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from rsso_dspy.bounds import MOST_TRIALS
from rsso_dspy.environments.benchmark import DEFAULT, Benchmark, get_benchmark
from rsso_dspy.errors import DamagedFile, SplitError, UsageError
from rsso_dspy.files import atomic_write_text, explain_absence, read_json
from rsso_dspy.log_lines import describe_flaw
from rsso_dspy.optimize.calibration import PARTS, Calibration
from rsso_dspy.optimize.verdict import LEVEL, WORTH, CompileEnding, Confirmation, find_smallest_gain_at
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import ADDITIONS
from rsso_dspy.programs.state import (
    count_unshown_demos,
    fingerprint_program,
    fingerprint_state,
    is_plain_state,
    merge_state,
    read_state,
    sends_equal_prompts,
)
from rsso_dspy.protocol import check_prompts_of
from rsso_dspy.records import ZERO_SHOT, Usage
from rsso_dspy.store.guards import CompileEnvironment

SCHEMA, KIND = 1, "rsso-dspy compiled program"
"""Version and kind of the file. Another version is refused by name."""

ELSEWHERE = "dspy"
"""Stands for the optimizer of a program that `rsso-dspy compile` did not make."""


DEMONSTRATION_LENGTH = 160
"""How many characters of a demonstration stand among the changes of a candidate: its beginning, and its answer."""


class FieldState(TypedDict):
    prefix: str
    description: str


class SignatureState(TypedDict):
    instructions: str
    fields: list[FieldState]


class PredictorState(TypedDict):
    """One predictor, as DSPy keeps it, without a model; whatever else a file holds of it is not read."""

    traces: list[Any]
    train: list[Any]
    demos: list[dict[str, Any]]
    signature: SignatureState
    lm: None


@dataclass(frozen=True, slots=True)
class ProgramScores:
    metric: float  # mean, 0 to 1
    mean: float  # of the best accumulator over the trials, the paper's Mean, 0 to 100


@dataclass(frozen=True, slots=True)
class RoleChange:
    """How a prompt of one role differs from the zero-shot one, in whole sentences and list lines."""

    role: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()  # whose descriptions differ
    demonstrations: tuple[str, ...] = ()  # added ones: a digest, which tells equal ones, beginning and end

    def list_lines(self) -> list[str]:
        """Every single difference, as what two candidates may share."""
        kinds = {"+": self.added, "-": self.removed, "field": self.fields, "shown": self.demonstrations}
        return [f"{self.role} {kind} {text}" for kind, texts in kinds.items() for text in texts]

    @property
    def counts(self) -> str:
        """How much differs, in a few characters: +3 -1 2 shown."""
        counts = [f"{sign}{len(lines)}" for sign, lines in (("+", self.added), ("-", self.removed)) if lines]
        if self.fields:
            counts.append(f"{len(self.fields)} fields")
        if self.demonstrations:
            counts.append(f"{len(self.demonstrations)} shown")
        return " ".join(counts)


@dataclass(frozen=True, slots=True)
class TriedProgram:
    """A program that was played on train or val variants, as 0, the program to improve, and every candidate were."""

    program: str  # fingerprint of the state
    scores: ProgramScores | None  # over the val variants that it was played on; None where it was played on none
    per_variant: dict[str, float] = field(default_factory=dict)  # the metric by key; of several seeds the mean
    number: int | None = None
    placebo: bool = False
    dropped: bool = False  # from the race, before it was played on all of val
    origin: str = ""  # start, placebo, proposed, combined, bootstrapped, hand-written, or what an optimizer says
    changes: tuple[RoleChange, ...] = ()  # against the zero-shot program
    nearest: int | None = None  # number of the earlier program that it differs least from; None of the first
    apart: int = 0  # sentences, list lines, fields and demonstrations in which it differs from that one
    val_played: int | None = None  # val variants that it was played on; None in files that do not say
    left: str = ""  # why it was not played on all of val, in words


@dataclass(frozen=True, slots=True)
class KeptCandidate:
    """The best candidate on val, or the one that got furthest, kept beside the program it started from because it is
    not confirmed."""

    program: str
    state: dict[str, PredictorState]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program and its history. The content of one JSON file. Variants are keys; scores are on val."""

    method: str
    optimizer: str
    train: tuple[str, ...]
    val: tuple[str, ...]
    environment: CompileEnvironment | None  # None when it was made outside of `rsso-dspy compile`
    signatures: str  # `hash_schema` of the method's predictors
    identity: dict[str, Any]  # protocol, configuration, prompts and versions that the compile depends on
    program: str  # fingerprint of the state
    state: dict[str, PredictorState]  # DSPy's state of the program, by predictor
    ended_by: CompileEnding | None = None  # what cut the compile short
    trials: Annotated[int, Field(strict=True, ge=0, le=MOST_TRIALS)] = 0  # a rollout; 0 when it was made elsewhere
    steps: int = 0  # a trial at most; fewer where the protocol allows fewer
    seed: int = 0
    notes: tuple[str, ...] = ()  # what a reader of the scores should know
    max_rollouts: int = 0
    max_cost: float | None = None
    confirm: tuple[str, ...] = ()  # what the chosen candidate and the program to improve were compared on
    seeds: int = 1
    placebos: int = 0
    before: ProgramScores | None = None  # of the program to improve; None when it was not played on all of val
    after: ProgramScores | None = None  # of the best candidate, confirmed or not
    tried: tuple[TriedProgram, ...] = ()
    confirmation: Confirmation | None = None  # the verdict; None for a program made elsewhere
    candidate: KeptCandidate | None = None
    search_end: str | None = None  # why the search ended, in words
    rollouts: int = 0
    usage: dict[str, Usage] = field(default_factory=dict)  # calls and tokens by role
    abandoned: dict[str, Usage] = field(default_factory=dict)  # of attempts that were cut short; not in `usage`
    model: str = ""  # the acting one, provider/model
    proposer: str = ""
    rule_based: bool = False  # whether the offline model answered in some role; such scores say nothing about others
    teacher: str | None = None  # who played train for demonstrations: `gold`, or a backend's acting model
    learned_on: tuple[str, ...] = ()  # variants behind the experience that models read beside the calibration's
    source_unknown: tuple[str, ...] = ()  # names of experience that does not say what it was learned on
    kind: str = KIND
    schema: int = SCHEMA

    def __repr__(self) -> str:
        verdict = self.confirmation or ("made elsewhere" if self.is_made_elsewhere else "no verdict")
        return f"Compiled({self.method}, {self.optimizer}, {verdict})"

    @property
    def lm_calls(self) -> int:
        return sum(usage.calls for usage in self.usage.values())

    @property
    def improved(self) -> bool:
        """Whether a candidate is confirmed, so that `state` is not the program to improve."""
        return self.confirmation is not None and self.confirmation.verdict == "confirmed"

    @property
    def gained_on_val(self) -> bool:
        """Whether the best candidate did better on val than the program to improve."""
        return self.before is not None and self.after is not None and self.after.metric > self.before.metric

    @property
    def compared(self) -> tuple[TriedProgram, ...]:
        """The programs that were played on all of val."""
        complete_counts = (None, len(self.val))
        return tuple(
            program
            for program in self.tried
            if program.scores and not program.dropped and program.val_played in complete_counts
        )

    def count_val_played(self, tried: TriedProgram) -> int:
        """How many val variants one of the tried programs was played on."""
        if tried.val_played is not None:
            return tried.val_played
        return sum(key in tried.per_variant for key in self.val)

    @property
    def is_made_elsewhere(self) -> bool:
        return self.optimizer == ELSEWHERE

    @property
    def calibration(self) -> tuple[str, ...]:
        return (*self.train, *self.val, *self.confirm)

    @property
    def chosen_state(self) -> dict[str, PredictorState]:
        return self.candidate.state if self.candidate else self.state

    @property
    def chosen_program(self) -> str:
        return self.candidate.program if self.candidate else self.program

    def select_candidate(self) -> "Compiled":
        """A copy that plays the unconfirmed candidate; without one, the compiled program itself."""
        return replace(self, state=self.chosen_state, program=self.chosen_program, candidate=None)

    @property
    def protocol(self) -> str:
        return str(self.identity.get("protocol") or "a protocol that it does not name")

    @property
    def benchmark(self) -> Benchmark:
        return get_benchmark(self.environment.name if self.environment else DEFAULT)

    @property
    def changes(self) -> tuple[str, ...]:
        zero_shot = Agent(self.method).dump_state()
        state = self.chosen_state
        words = [name for name, predictor in state.items() if _has_other_words(predictor, zero_shot[name])]
        demonstrations = [
            f"{len(predictor['demos'])} demonstrations of {name}"
            for name, predictor in state.items()
            if predictor["demos"]
        ]
        return (*(f"instruction of {name}" for name in words), *demonstrations)

    def agent(self, method: str | None = None) -> Agent:
        """The program, for its own method or for that method with a constitution added, which has the same prompts."""
        agent = Agent(method or self.method)
        agent.load_state({**agent.dump_state(), **self.state})
        return agent

    def save(self, path: Path | str) -> None:
        atomic_write_text(Path(path), FILE.dump_json(self, indent=1).decode() + "\n")


FILE = TypeAdapter(Compiled)


def _has_other_words(state: PredictorState, zero_shot: PredictorState) -> bool:
    """Whether a compile changed the words of a predictor. Other fields are another version's."""
    signature, usual = state["signature"], zero_shot["signature"]
    has_other_fields = len(signature["fields"]) != len(usual["fields"])
    return bool(signature["instructions"] != usual["instructions"] if has_other_fields else signature != usual)


def hash_schema(agent: Agent) -> str:
    """Hash of names, kinds and types of the fields of all predictors, which a saved state must fit; not of words."""
    fields = {}
    for name, predictor in agent.predictors_by_name.items():
        outputs = predictor.signature.output_fields
        fields[name] = [(key, str(info.annotation), key in outputs) for key, info in predictor.signature.fields.items()]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest()[:12]


def derive_program_name(path: Path | str) -> str:
    """The name of a program in runs and tables. Raises `UsageError` for one that cannot stand in the name of a folder
    or in a list, or is reserved."""
    name = Path(path).stem
    reserved = (ZERO_SHOT, *ADDITIONS)
    if not re.fullmatch(r"[\w.-]+", name) or name in reserved:
        raise UsageError(
            f"{path}: a compiled program is called after its file, and {name!r} is not a name of letters, digits, '.', "
            f"'_' and '-' other than {', '.join(reserved)}; rename the file, or name another"
        )
    return name


def load(path: Path | str, to_play: bool = True) -> Compiled:
    """The compiled program in a file of `rsso-dspy compile` or of `agent.save`. Raises `UsageError` for a file that is
    damaged or of another version, `SplitError` when it was compiled on held-out variants. A file that is loaded
    `to_play` also has to be made for the signatures and the prompts of this version, and unchanged since."""
    path = Path(path)
    try:
        data = read_json(path)
        if is_plain_state(data):
            return _load_saved_agent(path)
        if not isinstance(data, dict) or (data.get("kind"), data.get("schema")) != (KIND, SCHEMA):
            advice = "`rsso-dspy compile -o FILE` makes one, and agent.save(FILE) a state"
            raise UsageError(f"no compiled program of version {SCHEMA}; {advice}")
        compiled = FILE.validate_python(data)
        _check_calibration(compiled)
        if to_play:
            _check_playable(compiled)
        return compiled
    except OSError as error:
        why = f"cannot read the compiled program {path}: {error.strerror}; `rsso-dspy compile -o FILE` makes one"
        why += explain_absence(path)
        raise UsageError(why) from None
    except DamagedFile as error:
        raise UsageError(f"{path} is damaged or no compiled program ({error.why}); compile again") from None
    except ValidationError as error:
        raise UsageError(f"{path} is damaged ({describe_flaw(error)}); restore it, or compile again") from None
    except UsageError as error:
        raise (SplitError if isinstance(error, SplitError) else UsageError)(f"{path}: {error}") from None


def load_programs(texts: Sequence[str], unconfirmed: bool = False) -> dict[str, Compiled | None]:
    """The programs of a run by name: `zero-shot`, which is None here, or files. With `unconfirmed`, a candidate that is
    not confirmed plays. Raises `UsageError` when two programs have one name, for a file that would play the program its
    compile started from instead of what it found, and whatever `load` raises."""
    programs: dict[str, Compiled | None] = {}
    for text in texts:
        name = text if text == ZERO_SHOT else derive_program_name(text)
        if name in programs:
            why = "a program has the name of its file; rename one of the files"
            raise UsageError(f"--programs names {name!r} twice: {why}")
        programs[name] = None if text == ZERO_SHOT else _select_played(text, load(text), unconfirmed)
    if ZERO_SHOT in programs:
        for name, compiled in programs.items():
            if compiled is not None and compiled.is_made_elsewhere:
                _check_differs_from_zero_shot(name, compiled)
    return programs


def _check_differs_from_zero_shot(name: str, compiled: Compiled) -> None:
    agent = compiled.agent()
    if not sends_equal_prompts(agent, Agent(agent.method.name)):
        return
    unshown = sum(count_unshown_demos(agent).values())
    why = f": none of its {unshown} demonstrations has an answer, so no prompt shows them" if unshown else ""
    raise UsageError(f"{name} sends the same prompts as {ZERO_SHOT}, so there is nothing to compare{why}")


def _select_played(text: str, compiled: Compiled, unconfirmed: bool) -> Compiled:
    if compiled.improved or compiled.is_made_elsewhere:
        return compiled
    if compiled.candidate and unconfirmed:
        return compiled.select_candidate()
    advice = (
        f"`rsso-dspy evaluate {text} --candidate` (in Python unconfirmed=True) plays its candidate all the same"
        if compiled.candidate
        else "it holds no candidate; compile again, with a larger --calib, more --max-rollouts or another --optimizer"
    )
    raise UsageError(
        f"{text}: {describe_verdict(compiled)}. Nothing is played, since that would be the program that its compile "
        f"started from: {advice}"
    )


def _load_saved_agent(path: Path) -> Compiled:
    saved = read_state(path)
    if not saved.method:
        fix = "load it into an agent, Agent(METHOD).load(PATH), and save that"
        raise UsageError(f"it does not say which method it is of: {fix}")
    agent = Agent(saved.method)
    predictors = {name: {**state, "lm": None} for name, state in saved.predictors.items()}  # data, and no model
    agent.load_state(merge_state(path, replace(saved, predictors=predictors), saved.method, agent.dump_state()))
    state = {name: {**predictor, "traces": [], "train": []} for name, predictor in agent.dump_state().items()}
    return Compiled(
        method=saved.method,
        optimizer=ELSEWHERE,
        notes=("made outside of rsso-dspy compile: nobody knows here on which variants",),
        train=(),
        val=(),
        environment=None,
        signatures=hash_schema(agent),
        identity={},
        program=fingerprint_state(state),
        state=cast(dict[str, PredictorState], state),
    )


def _check_calibration(compiled: Compiled) -> None:
    """Raise `SplitError` for a program that was compiled on held-out variants."""
    if not compiled.is_made_elsewhere:
        of = compiled.benchmark
        if _has_tasks_of_data(compiled, of):
            return  # what there was to play is in the user's data; a run refuses variants that were calibrated on
        train, val, confirm = (tuple(map(of.tasks.parse, getattr(compiled, part))) for part in PARTS)
        Calibration(train, val, confirm, benchmark=of.name)


def _has_tasks_of_data(compiled: Compiled, of: Benchmark) -> bool:
    """Whether a program was compiled on task types of the user's data, which are not those that come along."""
    if of.data is None or of.data.tasks is None:
        return False
    tasks = {key.partition("::")[0] for part in PARTS for key in getattr(compiled, part)}
    return not tasks <= {*of.tasks.names()}


def _check_playable(compiled: Compiled) -> None:
    """Raise `UsageError` for a program that this version would play with other prompts than those it was made with."""
    if "protocol" in compiled.identity:
        check_prompts_of(compiled.protocol)
    if compiled.signatures != hash_schema(Agent(compiled.method)):  # raises for an unknown method
        raise UsageError(
            f"it was compiled for other signatures (other fields) than those of {compiled.method} here; compile "
            "again, or use the rsso-dspy it was made with"
        )
    for version in (compiled, compiled.select_candidate()):
        agent = version.agent()
        fingerprint = fingerprint_program(agent)
        if fingerprint != version.program or agent.dump_state().keys() != version.state.keys():
            raise UsageError(
                "its prompts were changed after compiling, so its scores are another program's; restore it, or, to "
                f'play it all the same, write "program": "{fingerprint}" into it'
            )


def describe_verdict(compiled: Compiled) -> str:
    return f"verdict: {compiled.confirmation or 'none; it was made elsewhere'}"


def describe_noise(compiled: Compiled) -> Iterator[str]:
    """What equally good programs differ by: the placebo and the program to improve, on val."""
    metrics = {program.program: program.scores.metric for program in compiled.compared if program.scores}
    placebo = next((program for program in compiled.compared if program.placebo), None)
    programs = [program for program in compiled.compared if not program.placebo]
    if placebo is None or not programs:
        return
    start = programs[0]
    gain = 100 * round(metrics[placebo.program] - metrics[start.program], 4)
    meaning = "the rule-based player heeds none, so this shows no luck" if compiled.rule_based else "so much is luck"
    yield f"noise: a rewording that means nothing gained {gain:+.1f} points on val; {meaning}"
    if not compiled.rule_based:
        yield from _describe_power(compiled, start, placebo)
    if metrics[placebo.program] - max(metrics[program.program] for program in programs) >= WORTH:
        yield (
            "WARNING: that placebo did better on val than every candidate: what val tells here is noise. It is not "
            "chosen and cannot be confirmed."
        )


def _describe_power(compiled: Compiled, start: TriedProgram, placebo: TriedProgram) -> Iterator[str]:
    """Which true gain such a compile confirms: by the spread of the confirm pairs, and before there are any, by that of
    the placebo, which differs less from the program to improve than a candidate does."""
    test = compiled.confirmation
    if test and test.smallest_gain is not None:
        yield (
            "power: by the spread of these confirm pairs, a true gain of about "
            f"{100 * test.smallest_gain:.0f} points is confirmed in four of five such compiles "
            f"({test.pairs} confirm variants, p < {test.level})"
        )
        return

    differences = [score - start.per_variant.get(key, score) for key, score in placebo.per_variant.items()]
    if not compiled.confirm or not any(differences):
        return

    deviation = sqrt(fmean(difference**2 for difference in differences))
    count = sum(abs(difference) >= 0.05 for difference in differences)
    pairs = len(compiled.confirm)
    yield (
        f"power: it scored otherwise on {count} of {len(differences)} variants, by {100 * deviation:.0f} points "
        "(standard deviation); where programs differ by so much, a true gain of about "
        f"{100 * find_smallest_gain_at(deviation, pairs):.0f} points is confirmed in four of five such compiles "
        f"({pairs} confirm variants, p < {LEVEL})"
    )


# What it says in each role, beside the zero-shot program.

Op = Literal["same", "removed", "added"]
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•]|\d+[.)])\s)|(?<=:)\n")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class RoleDifference:
    name: str
    changed: bool
    rows: tuple[tuple[Op, str], ...]  # sentences and list lines of both instructions, in order
    fields: tuple[str, ...]  # whose words differ
    added: tuple[dict[str, str], ...]  # new demonstrations, field to text


def compare_states(
    before: Mapping[str, PredictorState], after: Mapping[str, PredictorState]
) -> Iterator[RoleDifference]:
    for name, old_state in before.items():
        new_state = after[name]
        old_demos = [_format_demonstration(demo) for demo in old_state["demos"]]
        new_demos = [_format_demonstration(demo) for demo in new_state["demos"]]
        old_words = old_state["signature"]
        new_words = new_state["signature"]
        yield RoleDifference(
            name,
            changed=_has_other_words(new_state, old_state) or old_demos != new_demos,
            rows=tuple(align_sentences(old_words["instructions"], new_words["instructions"])),
            fields=_list_changed_fields(old_words["fields"], new_words["fields"]),
            added=tuple(demo for demo in new_demos if demo not in old_demos),
        )


def _list_changed_fields(before: Sequence[FieldState], after: Sequence[FieldState]) -> tuple[str, ...]:
    """The labels of fields whose words differ; none where the fields are those of another version."""
    if len(before) != len(after):
        return ()
    pairs = zip(before, after, strict=True)
    return tuple(old["prefix"].rstrip(":") for old, new in pairs if old != new)


def list_changes(before: Mapping[str, PredictorState], after: Mapping[str, PredictorState]) -> Iterator[RoleChange]:
    """The roles whose prompts differ, with the texts that do."""
    for role in compare_states(before, after):
        if role.changed:
            yield RoleChange(
                role.name,
                added=tuple(text for op, text in role.rows if op == "added"),
                removed=tuple(text for op, text in role.rows if op == "removed"),
                fields=role.fields,
                demonstrations=tuple(map(_abridge_demonstration, role.added)),
            )


def count_differences(one: Iterable[RoleChange], other: Iterable[RoleChange]) -> int:
    """In how many sentences, list lines, fields and demonstrations two programs differ, by their changes."""
    lines = Counter(line for change in one for line in change.list_lines())
    other_lines = Counter(line for change in other for line in change.list_lines())
    return ((lines - other_lines) + (other_lines - lines)).total()


def align_sentences(before: str, after: str) -> Iterator[tuple[Op, str]]:
    """The sentences and list lines of two instructions, however their sources were wrapped."""
    old, new = (
        [sentence for part in _BREAK.split(text) for sentence in _SENTENCE.split(" ".join(part.split())) if sentence]
        for text in (before, after)
    )
    for op, a0, a1, b0, b1 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield from (("same" if op == "equal" else "removed", sentence) for sentence in old[a0:a1])
        yield from (("added", sentence) for sentence in new[b0:b1] if op != "equal")


def _abridge_demonstration(shown: Mapping[str, str]) -> str:
    text = " ".join(" ".join(shown.values()).split())
    half = DEMONSTRATION_LENGTH // 2
    short = text if len(text) <= DEMONSTRATION_LENGTH else f"{text[:half]} ... {text[-half:]}"
    return f"{hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:8]} {short}"


def _format_demonstration(demo: Mapping[str, Any]) -> dict[str, str]:
    fields = {key: value for key, value in demo.items() if key != "augmented"}
    return {key: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for key, v in fields.items()}
