"""The result of an agent: a `dspy.Prediction` with a short text, an HTML table for notebooks, and JSON data."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import dspy
from pydantic import TypeAdapter

from rsso_dspy.programs.scoring import score_trials
from rsso_dspy.records import TrialResult, Variant

_TRIALS = TypeAdapter(tuple[TrialResult, ...])
_COLUMNS = ("trial", "outcome", "points", "environment score", "steps", "invalid")


class AgentPrediction(dspy.Prediction):
    """The trials of one variant.

    - ``trials``: tuple of `TrialResult`, in order
    - ``memories``: memory to its snapshot after the last trial, JSON data
    - ``score``: 0 to 1, as `rsso_dspy.metric` computes it; None if infrastructure failed in the last trial
    - ``points``: best accumulator over the trials, 0 to 100, the paper's score; None in the same case
    - ``variant``, ``method``: what was played, and by which method
    - ``benchmark``: name of the benchmark, if it is not the default one
    """

    @classmethod
    def from_trials(
        cls,
        method: str,
        variant: Variant,
        trials: Sequence[TrialResult],
        memories: Mapping[str, Any],
        benchmark: str = "",
    ) -> "AgentPrediction":
        failed = trials[-1].trajectory is None
        points = None if failed else max(each.trajectory.accumulator for each in trials if each.trajectory)
        return cls(
            method=method,
            variant=variant.key,
            trials=tuple(trials),
            memories=dict(memories),
            score=None if failed else score_trials(trials),
            points=points,
            **({"benchmark": benchmark} if benchmark else {}),
        )

    def toDict(self) -> dict[str, Any]:
        """Return the whole prediction as JSON data."""
        data = {name: value for name, value in self.items() if name != "trials"}
        return {**data, "trials": _TRIALS.dump_python(self.trials, mode="json")}

    def __repr__(self) -> str:
        if "trials" not in self:
            return str(super().__repr__())
        outcomes = ", ".join(row[1] for row in self._build_trial_rows())
        score = "none, a trial errored" if self.score is None else f"{self.score:.2f}"
        return (
            f"AgentPrediction({self.method} on {self.variant}: score {score}, points {self.points}, trials: {outcomes})"
        )

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Render a table of the trials for notebooks."""
        head = "".join(f"<th>{name}</th>" for name in _COLUMNS)
        rows = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in self._build_trial_rows()]
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<p>{escape(repr(self))}</p><table><tr>{head}</tr>{body}</table>"

    def _build_trial_rows(self) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        for trial in self.trials:
            played = trial.trajectory
            if played is None:
                rows.append((trial.trial, "error", "", "", "", ""))
            else:
                counts = (played.accumulator, played.environment_score, len(played.steps), played.invalid_actions)
                rows.append((trial.trial, played.outcome, *counts))
        return rows
