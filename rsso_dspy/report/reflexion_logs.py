"""Logs of Reflexion's published code as records. A folder of them is an arm, which a user names as ``NAME=DIR``.

Two files tell how trials ended. ``env_results_trial_N.json``, one for each trial from 0 on, lists the environments
after the trial: whether each is solved by then, and the reflections written so far. ``world.log`` has a line for each
environment and trial, and a summary of every trial that came to its end. Either is enough; where both are there, they
must agree. Nothing is known of steps and tokens."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from rsso_dspy.errors import UsageError
from rsso_dspy.files import read_json, read_text
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.records import SOLVED_SCORE, ZERO_SHOT, Outcome, State, Trajectory, TrialResult, UnitRecord, Variant
from rsso_dspy.report.metrics import REFLECTIONS

FILE = re.compile(r"env_results_(?:trial_)?(\d{1,6})\.json")
WORLD = "world.log"
STEPS = 49  # of a trial at most, in that code

_START = re.compile(r"\*+ Start Trial #(\d{1,6}) \*+")
_ENDED = re.compile(r"Environment #(\d{1,6}) Trial #(\d{1,6}): (SUCCESS|FAIL)")
_COUNT = re.compile(r"(SUCCESS|FAIL|TOTAL): (\d{1,6})")


@dataclass(frozen=True, slots=True)
class LogFolder:
    path: Path
    name: str = ""  # of the arm, as the user named it; empty if not named

    @property
    def arm(self) -> str:
        return self.name or self.path.resolve().name


@dataclass(frozen=True, slots=True)
class ReflexionLogs:
    records: Sequence[UnitRecord]
    remarks: Sequence[str]  # sentences on what was left out, or could not be known


@dataclass(frozen=True, slots=True)
class LoggedTrial(Trajectory):
    """A trial of which nothing is known but how it ended."""

    @property
    def accumulator(self) -> int:
        return SOLVED_SCORE if self.outcome == "solved" else 0

    @property
    def environment_score(self) -> int:
        return self.accumulator


class _Environment(BaseModel):
    """An environment after a trial."""

    name: str
    is_success: bool
    memory: list[str] = []


@dataclass(slots=True)
class _WorldTrial:
    """What the lines of ``world.log`` say of a trial."""

    solved: dict[int, bool] = field(default_factory=dict)  # environment to whether it is solved by then
    counts: dict[str, int] = field(default_factory=dict)  # of the summary: SUCCESS, FAIL, TOTAL


@dataclass(frozen=True, slots=True)
class _World:
    """What ``world.log`` says of a run."""

    trials: Mapping[int, list[_Environment]] = field(default_factory=dict)  # number to the environments after it
    cut: int | None = None  # number of the last trial, if it has no summary


@dataclass(frozen=True, slots=True)
class _LoggedRun:
    trials: Sequence[Sequence[_Environment]]  # environments after each trial
    knows_reflections: bool  # whether the files say which reflections were written
    remark: str = ""


@dataclass(frozen=True, slots=True)
class _Method:
    name: str
    reads_reflections: bool  # those that the files hold
    remark: str = ""


def parse_log_folder(argument: Path) -> LogFolder:
    """Read an argument ``NAME=DIR`` or ``DIR``; what exists under the whole name is a DIR."""
    name, _, folder = str(argument).partition("=")
    if argument.exists() or not (name and folder):
        return LogFolder(argument)
    return LogFolder(Path(folder).expanduser(), name)


def holds_reflexion_logs(folder: Path) -> bool:
    return bool(_find_trial_files(folder)) or (folder / WORLD).exists()


def read_reflexion_logs(folders: Sequence[LogFolder]) -> ReflexionLogs:
    """Return the units of these folders, each an arm. Raises `UsageError` that says what is missing or damaged."""
    arms = [folder.arm for folder in folders]
    if len(set(arms)) < len(arms):
        raise UsageError("two folders have the same name, which is that of their arm; name them: NAME=DIR")

    records: list[UnitRecord] = []
    remarks: list[str] = []
    for folder in folders:
        run = _read_run(folder)
        method = _find_method(folder, run)
        records += _build_units(folder.arm, method, run)
        if run.remark:
            remarks.append(run.remark)
        if method.remark:
            remarks.append(method.remark)
    return ReflexionLogs(records, remarks)


def _find_method(folder: LogFolder, run: _LoggedRun) -> _Method:
    """Return the method of an arm. A name that the user gave decides.

    Without one, only a folder without reflections is known to be the baseline: that code may also have written
    reflections that nobody read.
    """
    count = sum(len(environment.memory) for environment in run.trials[-1])
    method = METHODS.get(folder.arm.partition("+")[0])

    if method is not None and count and not method.memories:
        remark = f"{folder.arm}: its files hold {count:,} reflections. As it reads none, they count nowhere."
        return _Method(folder.arm, reads_reflections=False, remark=remark)

    if method is None and count and not folder.name:
        remark = (
            f"{folder.arm}: its files hold {count:,} reflections, but not whether the agent read them. Name the arm "
            f"by its method: react={folder.path} or reflexion={folder.path}."
        )
        return _Method(folder.arm, reads_reflections=True, remark=remark)

    is_unnamed = method is None and not folder.name
    is_baseline = is_unnamed and run.knows_reflections and not count
    name = "react" if is_baseline else folder.arm
    return _Method(name, reads_reflections=count > 0)


def _build_units(arm: str, method: _Method, run: _LoggedRun) -> Iterator[UnitRecord]:
    for index, states in enumerate(zip(*run.trials, strict=True)):
        solved = [state.is_success for state in states]
        name = states[0].name
        if sorted(solved) != solved:
            raise UsageError(f"the files of {arm} are not of one run: {name} is solved, and later not")

        name_without_number = re.sub(r"\W*_?\d+$", "", name)
        variant = Variant(name_without_number or name, index)

        played_states = states
        if solved[-1]:
            played_states = states[: solved.index(True) + 1]

        memories = {}
        if method.reads_reflections:
            memories["reflections"] = {"plans": _list_plans(played_states)}

        yield UnitRecord(
            protocol="Reflexion's code",
            arm=arm,
            method=method.name,
            program=ZERO_SHOT,
            backend="logs",
            model="not logged",
            rule_based=False,
            seed=0,
            trials=tuple(_list_trials(variant, method, played_states)),
            memories=memories,
            variant=variant,
            budget=STEPS,
            trials_allowed=len(states),
        )


def _list_trials(variant: Variant, method: _Method, states: Sequence[_Environment]) -> Iterator[TrialResult]:
    previous = 0
    for number, state in enumerate(states, start=1):
        outcome: Outcome = "solved" if state.is_success else "failed"
        trajectory = LoggedTrial(
            variant=variant,
            trial=number,
            task="",
            start=State("", "", ""),
            points_at_reset=0,
            steps=(),
            outcome=outcome,
        )

        reflections = len(state.memory)
        learnt: dict[str, dict[str, int | float]] = {}
        if method.reads_reflections:
            learnt[REFLECTIONS] = {"written": reflections - previous, "held": reflections}
        yield TrialResult(number, trajectory, learnt)
        previous = reflections


def _list_plans(states: Sequence[_Environment]) -> list[dict[str, int | str]]:
    """Return the reflections of an environment, each with the trial that it was written after."""
    plans: list[dict[str, int | str]] = []
    for number, state in enumerate(states, start=1):
        plans += [{"trial": number, "plan": text} for text in state.memory[len(plans) :]]
    return plans


def _find_trial_files(folder: Path) -> dict[int, Path]:
    """Return number, from 0, to file of the trials that a folder holds."""
    if not folder.is_dir():
        return {}

    files = {}
    for path in folder.iterdir():
        match = FILE.fullmatch(path.name)
        if match:
            files[int(match[1])] = path
    return files


def _read_run(folder: LogFolder) -> _LoggedRun:
    paths = _find_trial_files(folder.path)
    files = {number: _read_file(path) for number, path in sorted(paths.items())}
    world_path = folder.path / WORLD
    world = _read_world(world_path) if world_path.exists() else _World()
    for number in sorted(files.keys() & world.trials.keys()):
        _compare_sources(folder.path, number, files[number], world.trials[number])
    if not files and not world.trials:
        raise UsageError(f"{world_path} has no trial of Reflexion's code that came to its end")

    trials = _join_trials(folder.path, files, world)
    remark = ""
    if world.cut is not None:
        remark = f"{folder.arm}: trial {world.cut} of its {WORLD} was cut short and is left out."
    if len(files) == len(trials):
        return _LoggedRun(trials, knows_reflections=True, remark=remark)
    return _LoggedRun(list(map(_drop_reflections, trials)), knows_reflections=False, remark=remark)


def _join_trials(folder: Path, files: Mapping[int, list[_Environment]], world: _World) -> list[list[_Environment]]:
    """Return the environments after each trial, as the files say, or ``world.log`` where there is no file."""
    trials_by_number = {**world.trials, **files}
    numbers = range(max(trials_by_number) + 1)
    absent = set(numbers) - trials_by_number.keys()
    if absent:
        raise UsageError(
            f"{folder} lacks env_results_trial_{min(absent)}.json: in which trial an environment was solved is "
            f"known only from the files of all trials, from 0 on, or from their {WORLD}; put them there"
        )

    trials = [trials_by_number[number] for number in numbers]
    names = _list_names(trials[0])
    if any(_list_names(trial) != names for trial in trials):
        raise UsageError(f"the files in {folder} are not of one run: they list other environments")
    return trials


def _list_names(trial: Sequence[_Environment]) -> list[str]:
    return [environment.name for environment in trial]


def _list_successes(trial: Sequence[_Environment]) -> list[bool]:
    return [environment.is_success for environment in trial]


def _drop_reflections(trial: Sequence[_Environment]) -> list[_Environment]:
    return [environment.model_copy(update={"memory": []}) for environment in trial]


def _compare_sources(folder: Path, number: int, listed: Sequence[_Environment], logged: Sequence[_Environment]) -> None:
    if _list_successes(listed) != _list_successes(logged):
        raise UsageError(
            f"the files in {folder} are not of one run: of trial {number}, env_results and {WORLD} do not say the same"
        )


def _read_world(path: Path) -> _World:
    """Read a ``world.log``. A trial that starts again replaces what an earlier run wrote of it and of later ones."""
    trials: dict[int, _WorldTrial] = {}
    for line in map(str.strip, read_text(path).splitlines()):
        if start := _START.fullmatch(line):
            trials = {number: trial for number, trial in trials.items() if number < int(start[1])}
        elif ended := _ENDED.fullmatch(line):
            trial = trials.setdefault(int(ended[2]), _WorldTrial())
            trial.solved[int(ended[1])] = ended[3] == "SUCCESS"
        elif trials and (count := _COUNT.fullmatch(line)):
            trials[max(trials)].counts[count[1]] = int(count[2])

    cut = max(trials, default=None)
    if cut is not None and trials[cut].counts:
        cut = None
    environments = {
        number: _list_environments(path, number, trial) for number, trial in trials.items() if number != cut
    }
    return _World(environments, cut)


def _list_environments(path: Path, number: int, trial: _WorldTrial) -> list[_Environment]:
    """Return the environments after a trial whose lines add up to its summary. One without a line is not solved: that
    code writes none for a game that it does not know."""
    total = trial.counts.get("TOTAL", 0)
    success = trial.counts.get("SUCCESS", 0)
    fits = total > max(trial.solved) and trial.counts.get("FAIL") == total - success
    if not fits or sum(trial.solved.values()) != success:
        raise UsageError(f"{path} is damaged: the lines of trial {number} do not add up to its summary")

    environments = []
    for index in range(total):
        is_success = trial.solved.get(index, False)
        environments.append(_Environment(name=f"env_{index}", is_success=is_success))
    return environments


def _read_file(path: Path) -> list[_Environment]:
    try:
        return TypeAdapter(list[_Environment]).validate_python(read_json(path))
    except ValidationError as error:
        wrong = f"{error.error_count()} values are missing or of another type"
        raise UsageError(f"{path} is no log of Reflexion ({wrong}): it lists name, is_success and memory") from None
