"""What the methods achieve on the embedded backend, and what their memories do.

    python benchmarks/methods.py [--jobs 2] [--out runs/methods]

Plays all six methods on two held-out variants of each of the 18 tasks, three trials, under `sso-adapt/1-cap60` (or
takes up what is already in --out), then prints the tables of docs/BENCHMARKS.md. The ratio is the Mean of rsso over
that of react-sso, equal retries without memory, both measured in this run.

An action counts as changed by memory when the actor, asked again with the same prompt less the memories' regions,
answers another action.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from rsso_dspy.config import load_config
from rsso_dspy.environments import Environment
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES
from rsso_dspy.environments.scienceworld.state_text import render_states
from rsso_dspy.experiment.executor import Executor, fingerprint_programs, list_pending_jobs, make_zero_shot_programs
from rsso_dspy.experiment.plan import plan_held_out
from rsso_dspy.experiment.provenance import make_provenance, make_run_identity
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.experiment.unit_runner import UnitRunner
from rsso_dspy.programs.agent import ROLLOUTS_PER_SEED, Agent
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.role_calls import RoleCalls, TrialLedger
from rsso_dspy.programs.roles import Roles
from rsso_dspy.programs.transcript import render_history
from rsso_dspy.records import Step, UnitRecord
from rsso_dspy.report.comparison import compare_arms
from rsso_dspy.report.metrics import ArmMetrics, compute_arm_metrics, group_by_arm
from rsso_dspy.store.unit_store import Store

SETTINGS = ["protocol.preset=sso-adapt/1-cap60", "protocol.trials=3"]
PAIRS = [
    ("react-sso", "reflexion-sso"),
    ("react-sso", "sso"),
    ("react-sso", "rsso"),
    ("sso", "rsso"),
    ("react", "reflexion"),
]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path, default=Path("runs/methods"))
    given = options.parse_args()
    config = load_config(overrides=SETTINGS)
    plan = plan_held_out(config, [name for name, row in METHODS.items() if row.writing is None], per_task=2)
    store = Store(given.out)
    with session(config, jobs=given.jobs) as live:
        programs = make_zero_shot_programs(plan)
        store.open(make_run_identity(config, live.protocol), fingerprint_programs(programs))
        executor = Executor(UnitRunner(live, store, programs, make_provenance(config)))
        executor.run(plan, list_pending_jobs(plan, store), given.jobs)
        arms = group_by_arm(store.units())
        changed = {arm: count_changed_actions(live, records) for arm, records in arms.items()}
    rows = {arm: compute_arm_metrics(arm, records) for arm, records in arms.items()}
    print_methods(rows.values())
    print_differences(arms)
    print_memories(arms, changed)
    print_tasks(arms)
    ratio = (rows["rsso"].mean or 0) / (rows["react-sso"].mean or 1)
    print(json.dumps({"ratio": round(ratio, 3), "means": {arm: round(row.mean or 0, 2) for arm, row in rows.items()}}))


def print_methods(rows: Iterable[ArmMetrics]) -> None:
    print(
        "| method | Mean | with reset points | environment score | Solve | Acc100 | trial-1 | best_of_2 | best_of_3 |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for row in rows:
        cells = [row.mean, row.mean_with_reset, row.environment_score]
        later = [row.trial_1, *row.best_of_t[1:]]
        print(
            f"| {row.arm} | {_join_points(cells)} | {row.solve}/{row.units} | {row.acc100}/{row.units} | "
            f"{_join_points(later)} |"
        )


def print_differences(arms: dict[str, list[UnitRecord]]) -> None:
    print("\n| second - first | points | 95% interval | units higher/lower | tasks higher/lower |")
    print("|---|---|---|---|---|")
    for first, second in PAIRS:
        pair = compare_arms(first, arms[first], second, arms[second])
        low, high = (pair.interval.low, pair.interval.high) if pair.interval else (0.0, 0.0)
        print(
            f"| {second} - {first} | {pair.difference:+.2f} | {low:+.2f} to {high:+.2f} | "
            f"{pair.higher}/{pair.lower} | {pair.sign.up}/{pair.sign.down} |"
        )


def print_memories(arms: dict[str, list[UnitRecord]], changed: dict[str, tuple[int, int]]) -> None:
    print("\n| method | reflections written | skills written | steps with skills | steps pursuing one | "
          "steps with a memory | actions changed by memory |")  # fmt: skip
    print("|---|---|---|---|---|---|---|")
    for arm, records in arms.items():
        counts: Counter[str] = Counter()
        for trial in (trial for record in records for trial in record.trials):
            counts["reflections"] += trial.learnt.get("plans_from_past_attempts", {}).get("written", 0)
            counts["skills"] += trial.learnt.get("skills", {}).get("written", 0)
            steps = trial.trajectory.steps if trial.trajectory else ()
            counts["recalled"] += sum(bool(step.recalled) for step in steps)
            counts["pursued"] += sum(step.subgoal is not None for step in steps)
        if METHODS[arm].memories:
            numbers = [counts[name] for name in ("reflections", "skills", "recalled", "pursued")] + list(changed[arm])
            print(f"| {arm} | {' | '.join(map(str, numbers))} |")


def print_tasks(arms: dict[str, list[UnitRecord]]) -> None:
    print(f"\n| task | {' | '.join(arms)} | trial-1 react-sso |\n|---|{'---|' * (len(arms) + 1)}")
    for task in sorted({record.variant.task for records in arms.values() for record in records}):
        rows = {
            arm: compute_arm_metrics(arm, [r for r in records if r.variant.task == task])
            for arm, records in arms.items()
        }
        print(
            f"| {task} | {_join_points(row.mean for row in rows.values())} | "
            f"{_join_points([rows['react-sso'].trial_1])} |"
        )


def count_changed_actions(live: Session, records: Sequence[UnitRecord]) -> tuple[int, int]:
    """Steps with a memory in their prompt, and those of them whose action the memory changed."""
    seen = changed = 0
    for record in records:
        agent = Agent(record.method)
        roles = Roles(agent.modules, agent.method)
        roles.environment = cast(Environment, SimpleNamespace(action_templates=ACTION_TEMPLATES))
        for trial in record.trials:
            if trial.trajectory is None:
                continue
            states, steps = trial.trajectory.states, trial.trajectory.steps
            roles.call = RoleCalls(
                live.runtime, record.seed * ROLLOUTS_PER_SEED + trial.trial, TrialLedger(live.runtime.spend)
            )
            for index, step in enumerate(steps):
                memories = _select_memory_regions(trial.shown, step)
                if not memories:
                    continue
                focus = next((s.state.observation for s in reversed(steps[:index]) if _is_focus(s)), "")
                past = render_history(
                    states[: index + 1],
                    steps[:index],
                    lambda window, f=focus: render_states(window, f),
                    roles.scaffold,
                )
                asked = {"task": trial.trajectory.task, "history": past}
                with_memory, without = roles.act([], **asked, **memories), roles.act([], **asked)
                assert with_memory is not None, "the embedded actor answers every prompt"
                assert with_memory.action == step.proposed, f"{record.variant.key} does not replay at step {index + 1}"
                seen += 1
                changed += without is None or without.action != step.proposed
    return seen, changed


def _select_memory_regions(shown: dict[str, str], step: Step) -> dict[str, str]:
    """Regions that memories filled at a step."""
    recalled = f"skills:{','.join(step.recalled)}"
    whole_trial = {name: text for name, text in shown.items() if ":" not in name}
    return whole_trial | ({"skills": shown[recalled]} if recalled in shown else {})


def _is_focus(step: Step) -> bool:
    return step.state.observation.startswith("You focus on")


def _join_points(values: Iterable[float | None]) -> str:
    return " | ".join("n/a" if value is None else f"{value:.2f}" for value in values)


if __name__ == "__main__":
    main()
