"""House rules: requests in a repository that has its own way of doing things. What an agent lacks there is no skill but
a fact, such as a port or a package manager, so a memory that holds the fact is all that it needs. Nothing is executed.

`environment.data` names the repository: ``one`` (the default), ``two``, ``three``, ``dev``, or a file of one's own
rules (`rules_file.py`).
"""

from rsso_dspy.environments.benchmark import Benchmark, Budget, UserData
from rsso_dspy.environments.house_rules import tasks
from rsso_dspy.environments.house_rules.environment import LESSONS, TEMPLATES, HouseRules
from rsso_dspy.environments.house_rules.repositories import DEFAULT, get_repository
from rsso_dspy.environments.house_rules.rules import Repository

TOKENS_PER_CALL = {"actor": (350, 30), "reflector": (650, 60)}
"""Means of Qwen2.5-Coder-1.5B on `dev`, of requests without a constitution."""

MOST_LINES = 2  # of a trial: the environment ends one whose request has a single step after the first


def find_repository(data: str | None) -> Repository:
    return get_repository(data or DEFAULT)


BENCHMARK = Benchmark(
    name="house-rules",
    version="1",
    tasks=tasks.make_table(find_repository(DEFAULT)),
    make_environment=lambda settings, _: HouseRules(find_repository(settings.data)),
    budget=Budget(lambda _: MOST_LINES, most_steps=MOST_LINES),
    action_templates={"sso": TEMPLATES},
    gold_path=lambda variant, data, _: tasks.find_solution(variant, find_repository(data)),
    hints=LESSONS.hints,
    tokens_per_call=TOKENS_PER_CALL,
    count_guesses=lambda task, data: find_repository(data).rules[task].values,
    strata=lambda variant, data: tasks.list_strata(variant, find_repository(data)),
    data=UserData(
        digest=lambda data: find_repository(data).digest,
        check=lambda variants, data: tasks.check_variants(variants, find_repository(data)),
        find=lambda: DEFAULT,
        tasks=lambda data: tasks.make_table(find_repository(data)),
    ),
)
