"""A run from Python: what `rsso-dspy run` does, as one call.

import rsso_dspy

result = rsso_dspy.run(["react-sso", "rsso"], tasks="find-plant", per_task=2, trials=3, out="runs/plants")
result.report()
"""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rsso_dspy.config import Config, load_config, validate_config
from rsso_dspy.errors import UsageError
from rsso_dspy.experiment.events import EventStream, TrialFinished, UnitFinished
from rsso_dspy.experiment.run import Run, plan_run
from rsso_dspy.experiment.session import session
from rsso_dspy.optimize.program_file import load_programs
from rsso_dspy.records import ZERO_SHOT
from rsso_dspy.store.run_spec import RunSpec
from rsso_dspy.workflows.run_result import RunResult


def run(
    methods: Sequence[str] | str | None = None,
    *,
    programs: Sequence[Path | str] | str = (ZERO_SHOT,),
    unconfirmed: bool = False,
    tasks: Sequence[str] | str | None = None,
    variants: Sequence[str] | str = (),
    per_task: int | None = None,
    trials: int | None = None,
    benchmark: str | None = None,
    protocol: str | None = None,
    seed: int | None = None,
    skills: Path | str | None = None,
    constitution: Path | str | None = None,
    out: Path | str = "runs/run",
    jobs: int = 1,
    max_cost: float | None = None,
    max_tokens: int | None = None,
    config: Config | None = None,
    settings: Sequence[str] = (),
    progress: bool = True,
) -> RunResult:
    """Play held-out variants with one or more methods, save every trial in the folder `out`, and return its results.

    Call it again to resume. Give each experiment an `out` of its own: the results count every unit in the folder, and a
    warning says how many are of earlier calls. The arguments are options of `rsso-dspy run`: `methods` (default: those
    of the compiled `programs`, or react-sso and rsso), `programs` (``["zero-shot", "compiled.json"]`` compares both),
    `tasks` and `variants` are lists or comma-separated; `settings` are overrides such as
    `"memory.reflections.size=5"` or `"protocol.setting=transfer"` of the configuration, which is `rsso.toml` where the
    working directory has one. `constitution` needs methods that read it, such as rsso+constitution. The command
    alone can shard, retry and replay. A model set by `dspy.configure(lm=...)` answers in every role;
    otherwise the configuration's backend does, by default the rule-based offline one. `progress` shows a bar on
    stderr.

    Raises `ConfigError`, `UnknownName` or `UsageError` for arguments that cannot be played, `RunMismatch` if the folder
    holds a run of another configuration, and `LimitReached` at `max_cost` (US dollars) or `max_tokens`.
    """
    if config is not None and settings:
        raise UsageError("config and settings exclude each other; put the settings into the configuration")
    playing = load_programs(_split(programs), unconfirmed)
    compiled_for = dict.fromkeys(program.method for program in playing.values() if program)
    spec = RunSpec(
        methods=_split(methods) if methods is not None else tuple(compiled_for) or ("react-sso", "rsso"),
        programs=tuple(playing),
        compiled=tuple(Path(file) for file in _split(programs) if file != ZERO_SHOT),
        unconfirmed=unconfirmed,
        tasks=None if tasks is None else _split(tasks),
        variants=_split(variants),
        per_task=per_task,
        out=Path(out),
        skills=None if skills is None else Path(skills),
        constitution=None if constitution is None else Path(constitution),
    )
    given = _apply_arguments(
        config or load_config(overrides=settings), benchmark=benchmark, seed=seed, preset=protocol, trials=trials
    )
    with session(given, jobs) as live:
        planned = plan_run(live.config, spec, playing, say=lambda note: warnings.warn(note, stacklevel=2))
        if beside := planned.units_beside:
            warnings.warn(
                f"{out} also holds {beside} units of earlier calls, which the results count too; name another out for "
                "the results of this call alone",
                stacklevel=2,
            )
        purse = planned.make_spend_limit(max_cost, max_tokens)
        if any("skills" in unit.arm.method.memories for unit in planned.plan.units):
            live.embedder.check()
        events = EventStream()
        with tqdm(total=len(planned.left), desc=str(out), unit="unit", disable=not progress) as bar:
            _follow_events(bar, events, planned)
            planned.execute(live, jobs, purse, events)
        return RunResult(planned.store.folder, live.config, planned.units_beside)


def _split(names: Sequence[Path | str] | str) -> tuple[str, ...]:
    """Return names given as a list or comma-separated."""
    return tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(map(str, names))


def _apply_arguments(
    config: Config, benchmark: str | None, seed: int | None, preset: str | None, trials: int | None
) -> Config:
    """Return the configuration with the arguments that were given, validated again."""
    data: dict[str, Any] = config.model_dump()
    data |= {name: value for name, value in (("benchmark", benchmark), ("seed", seed)) if value is not None}
    data["protocol"] |= {name: value for name, value in (("preset", preset), ("trials", trials)) if value is not None}
    return validate_config(data)


def _follow_events(bar: Any, events: EventStream, planned: Run) -> None:
    """Move the bar with every unit, and name the last finished trial beside it."""
    bar.set_postfix_str(f"{len(planned.plan.units) - len(planned.left)} units were there" if not planned.left else "")

    def show_trial(event: TrialFinished) -> None:
        played = event.result.trajectory
        outcome = "error" if played is None else f"{played.outcome}, {played.accumulator} points"
        bar.set_postfix_str(f"{event.work.key}, trial {event.result.trial}: {outcome}")

    events.subscribe(TrialFinished, show_trial)
    events.subscribe(UnitFinished, lambda _: bar.update())
