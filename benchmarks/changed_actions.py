"""How many actions the memories of a finished run changed.

    rsso-dspy run --methods react,reflexion,sso,rsso,react-sso,reflexion-sso --per-task 2 --trials 3 \
        --protocol sso-adapt/1-cap60 --out runs/methods
    python benchmarks/changed_actions.py runs/methods

An action counts as changed by memory when the actor, asked again with the same prompt less the memories' regions,
answers another action. The run is one of the embedded backend under `sso-adapt/1` on ScienceWorld: every answer is
replayed, and a step whose answer is not the recorded one ends the script. The last line is one JSON object.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.config import load_config
from rsso_dspy.environments import Environment
from rsso_dspy.environments.scienceworld.actions import ACTION_TEMPLATES
from rsso_dspy.environments.scienceworld.state_text import render_states
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.programs.agent import ROLLOUTS_PER_SEED, Agent
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.role_calls import RoleCalls, TrialLedger
from rsso_dspy.programs.roles import Roles
from rsso_dspy.programs.transcript import render_history
from rsso_dspy.records import Step, UnitRecord
from rsso_dspy.report.metrics import group_by_arm
from rsso_dspy.store.unit_store import Store


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("run", type=Path)
    arms = group_by_arm(Store(options.parse_args().run).units())
    print_head("method", "reflections written", "skills written", "steps with skills", "steps pursuing one",
               "steps with a memory", "actions changed by memory")  # fmt: skip
    result = {}
    with session(load_config(overrides=["protocol.preset=sso-adapt/1-cap60"])) as live:
        for arm, records in arms.items():
            if METHODS[arm].memories:
                seen, changed = count_changed_actions(live, records)
                print_row(arm, *count_memory_use(records), seen, changed)
                result[arm] = {"seen": seen, "changed": changed}
    print(json.dumps(result))


def count_memory_use(records: Sequence[UnitRecord]) -> tuple[int, int, int, int]:
    """Reflections and skills written, steps that recalled skills, and steps that pursued one."""
    counts: Counter[str] = Counter()
    for trial in (trial for record in records for trial in record.trials):
        counts["reflections"] += trial.learnt.get("plans_from_past_attempts", {}).get("written", 0)
        counts["skills"] += trial.learnt.get("skills", {}).get("written", 0)
        steps = trial.trajectory.steps if trial.trajectory else ()
        counts["recalled"] += sum(bool(step.recalled) for step in steps)
        counts["pursued"] += sum(step.subgoal is not None for step in steps)
    return counts["reflections"], counts["skills"], counts["recalled"], counts["pursued"]


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


if __name__ == "__main__":
    main()
