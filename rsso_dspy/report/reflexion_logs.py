"""Logs of Reflexion's published code as records: a folder with a file ``env_results_trial_N.json`` for each trial of a
run, from 0 on, is an arm of the folder's name. A file lists the environments after the trial: whether each is solved by
then, and the reflections written so far. Nothing is known of steps and tokens."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from rsso_dspy.errors import UsageError
from rsso_dspy.files import read_json
from rsso_dspy.records import SOLVED_SCORE, ZERO_SHOT, Outcome, State, Trajectory, TrialResult, UnitRecord, Variant
from rsso_dspy.report.metrics import REFLECTIONS

FILE = re.compile(r"env_results_(?:trial_)?(\d{1,6})\.json")
STEPS = 49  # of a trial at most, in that code


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
    name: str
    is_success: bool
    memory: list[str] = []


def find_trial_files(folder: Path) -> dict[int, Path]:
    """Return number, from 0, to file of the trials that a folder holds."""
    found = [(FILE.fullmatch(path.name), path) for path in (folder.iterdir() if folder.is_dir() else ())]
    return {int(match[1]): path for match, path in found if match}


def read_reflexion_logs(folders: Sequence[Path]) -> list[UnitRecord]:
    """Return the units of these folders, each an arm. Raises `UsageError` that says what is missing or damaged."""
    if len({folder.resolve().name for folder in folders}) < len(folders):
        raise UsageError("two folders have the same name, which is that of their arm; rename one")
    return [unit for folder in folders for unit in _read_folder(folder)]


def _read_folder(folder: Path) -> Iterator[UnitRecord]:
    files = find_trial_files(folder)
    if absent := set(range(max(files))) - set(files):
        raise UsageError(
            f"{folder} lacks env_results_trial_{min(absent)}.json: in which trial an environment was solved is known "
            "only from the files of all trials, from 0 on; put them there"
        )
    trials = [_read_file(files[number]) for number in sorted(files)]
    names = [environment.name for environment in trials[0]]
    if any([each.name for each in trial] != names for trial in trials):
        raise UsageError(f"the files in {folder} are not of one run: they list other environments")
    method = "reflexion" if any(each.memory for each in trials[-1]) else "react"
    for index, states in enumerate(zip(*trials, strict=True)):
        solved = [state.is_success for state in states]
        if sorted(solved) != solved:
            raise UsageError(f"the files in {folder} are not of one run: {names[index]} is solved, and later not")
        variant = Variant(re.sub(r"\W*_?\d+$", "", names[index]) or names[index], index)
        played = states[: solved.index(True) + 1] if solved[-1] else states
        yield UnitRecord(
            protocol="Reflexion's code", arm=folder.resolve().name, method=method, program=ZERO_SHOT, backend="logs",
            model="not logged", rule_based=False, seed=0, trials=tuple(_list_trials(variant, played)),
            variant=variant, budget=STEPS, trials_allowed=len(states),
        )  # fmt: skip


def _list_trials(variant: Variant, states: Sequence[_Environment]) -> Iterator[TrialResult]:
    held = [0, *(len(state.memory) for state in states)]
    for number, state in enumerate(states, start=1):
        outcome: Outcome = "solved" if state.is_success else "failed"
        played = LoggedTrial(variant, number, "", State("", "", ""), 0, (), outcome)
        counts: dict[str, int | float] = {"written": held[number] - held[number - 1], "held": held[number]}
        yield TrialResult(number, played, {REFLECTIONS: counts})


def _read_file(path: Path) -> list[_Environment]:
    try:
        return TypeAdapter(list[_Environment]).validate_python(read_json(path))
    except ValidationError as error:
        wrong = f"{error.error_count()} values are missing or of another type"
        raise UsageError(f"{path} is no log of Reflexion ({wrong}): it lists name, is_success and memory") from None
