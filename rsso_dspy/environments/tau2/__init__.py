"""The telecom tickets of tau2-bench in solo mode: the agent calls the tools of the operator and of the phone itself."""

from rsso_dspy.environments.benchmark import Benchmark, Budget
from rsso_dspy.environments.tau2 import tasks
from rsso_dspy.environments.tau2.environment import ACTION_FORM, LESSONS, Telecom

BENCHMARK = Benchmark(
    name="tau2",
    version=tasks.read_version(),
    tasks=tasks.make_table(),
    make_environment=lambda settings, stopped: Telecom(settings.step_seconds, stopped),
    budget=Budget(lambda _: tasks.GOLD_LENGTH, most_steps=tasks.MOST_STEPS),
    action_templates={"sso": ACTION_FORM},
    gold_path=lambda variant, *_: tasks.find_solution(variant),
    hints=LESSONS.hints,
    tokens_per_call=tasks.TOKENS_PER_CALL,
)
