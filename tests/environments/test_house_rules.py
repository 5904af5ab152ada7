"""House rules: how a command line is read, what a repository holds, and what a trial comes to."""

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import rsso_dspy
from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.house_rules.environment import HouseRules
from rsso_dspy.environments.house_rules.markdown import format_rules
from rsso_dspy.environments.house_rules.patterns import PatternError, read_pattern
from rsso_dspy.environments.house_rules.repositories import (
    DEVELOPMENT,
    NAMES,
    PLAYED,
    SPLITS,
    draw_repository,
    get_repository,
)
from rsso_dspy.environments.house_rules.rules import ALL_DONE, DONE_SO_FAR, NOT_ASKED, TOO_MUCH, Attempt
from rsso_dspy.environments.house_rules.shell import Command, NotUnderstood, parse_line
from rsso_dspy.errors import SimulatorDied, SplitError, UsageError
from rsso_dspy.optimize.calibration import draw_calibration
from rsso_dspy.records import Step
from scripts.write_house_rules import FOLDER

# How a command line is read.


def test_a_command_has_words_variables_folder_and_file():
    (command,) = parse_line("cd infra && TF_LOG=info terraform plan -out='a b' < answers.txt")

    assert command == Command(("terraform", "plan", "-out=a b"), {"TF_LOG": "info"}, "infra", "infra/answers.txt")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a && b; c", [("a",), ("b",), ("c",)]),
        ("a;", [("a",)]),
        ("echo '&&' \";\" \\| 'x (y)'", [("echo", "&&", ";", "|", "x (y)")]),
        ("git commit -m 'a && b'", [("git", "commit", "-m", "a && b")]),
        ("echo # no comment", [("echo", "#", "no", "comment")]),
        ("env A=1 B=2 make", [("make",)]),
        ("sudo systemctl stop cups", [("systemctl", "stop", "cups")]),
        ("sudo -u postgres psql -l", [("psql", "-l")]),
        ("env sudo A=1 docker stop web", [("docker", "stop", "web")]),
        ("ssh zephyr 'systemctl restart nginx'", [("ssh", "zephyr", "systemctl", "restart", "nginx")]),
        ("ssh zephyr sudo systemctl restart nginx", [("ssh", "zephyr", "systemctl", "restart", "nginx")]),
        ("ssh zephyr", [("ssh", "zephyr")]),
        ("", []),
    ],
)
def test_words_are_split_as_a_shell_splits_them(line, words):
    assert [command.words for command in parse_line(line)] == words


@pytest.mark.parametrize(
    ("line", "variables"),
    [
        ("A=1 make", {"A": "1"}),
        ("export A=1 && make", {"A": "1"}),
        ("export A=1; A=2 make", {"A": "2"}),
        ("env A= make", {"A": ""}),
        ("sudo A=1 make", {"A": "1"}),
        ("A=1 env B=2 make", {"A": "1", "B": "2"}),
        ("make A=1", {}),
    ],
)
def test_variables_are_those_of_the_command_and_exported_ones(line, variables):
    assert [dict(command.variables) for command in parse_line(line)] == [variables]


def test_a_folder_holds_for_the_rest_of_the_line():
    assert [command.folder for command in parse_line("a && cd x/y && b; cd .. && c; cd .. && d")] == [
        "",
        "x/y",
        "x",
        "",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "a || b",
        "a | b",
        "a & b",
        "a > file",
        "a << end",
        "(a)",
        "a $(b)",
        "a `b`",
        'a "$(b)"',
        "bash -c 'a'",
        "sudo bash -c 'a'",
        "sudo -i",
        "sudo -E make",
        "env -i make",
        "ssh host 'open \\'",
        "sh script",
        "eval a",
        "a 'open",
        'a "open',
        "&& a",
        "a && && b",
        "a &&",
        "; a",
        "A=1",
        "< file",
        "a <",
        "a < b < c",
        "cd /etc && a",
        "cd ../x && a",
        "cd - && a",
        "cd a b && c",
        "export a",
        "a\nb",
    ],
)
def test_more_than_the_small_part_of_the_shell_is_not_understood(line):
    with pytest.raises(NotUnderstood):
        parse_line(line)


@pytest.mark.parametrize(
    ("pattern", "line", "matches"),
    [
        ("psql {-p=6543|--port=6543} shop", "psql -p 6543 shop", True),
        ("psql {-p=6543|--port=6543} shop", "psql -p6543 shop", True),
        ("psql {-p=6543|--port=6543} shop", "psql shop --port 6543", True),
        ("psql {-p=6543|--port=6543} shop", "psql -p 5432 shop", False),
        ("psql {-p=6543|--port=6543} shop", "psql -p 6543 shop more", False),
        ("psql {-p=6543|--port=6543} shop", "psql -p 6543 -c 1 shop", False),
        ("git commit -s -m='a b'", "git commit -sm 'a b'", True),
        ("git commit -s -m='a b'", "git commit -m 'a b'", False),
        ("git push [-u] hub x", "git push hub x", True),
        ("git push [-u] hub x", "git push -u hub x", True),
        ("git push [-u] hub x", "git push hub y", False),
        ("git push ...", "git push -f origin x", True),
        ("git push ...", "git pull", False),
        ("cat db/*.sql", "cat db/0001.sql", True),
        ("cat db/*.sql", "cd db && cat 0001.sql", True),
        ("cat db/*.sql", "cat ./db/0001.sql", True),
        ("cat db/*.sql", "cd x && cat db/0001.sql", False),
        ("ack FIXME {app|app/}", "ack FIXME ./app", True),
        ("ack FIXME {app|app/}", "ack FIXME ./app/", True),
        ("ack FIXME {app|app/}", "ack FIXME ../app", False),
        ("pytest tests/", "pytest tests", True),
        ("pytest tests", "pytest tests/", True),
        ("terraform -chdir=infra plan", "terraform -chdir=./infra plan", True),
        ("terraform -chdir=infra plan", "terraform -chdir=infra/ plan", True),
        ("terraform -chdir=infra plan", "terraform -chdir=./cloud plan", False),
        ("kubectl apply {-f=k8s/web.yaml|--filename=k8s/web.yaml}", "kubectl apply -f ./k8s/web.yaml", True),
        ("kubectl apply {-f=k8s/web.yaml|--filename=k8s/web.yaml}", "kubectl apply --filename=./k8s/web.yaml", True),
        ("go test ./auth", "go test auth", False),
        ("go test ./auth", "cd auth && go test .", True),
        ("rails db:*", "./rails db:migrate", False),
        ("bin/rails db:*", "./bin/rails db:migrate", True),
        ("./gradlew build", "gradlew build", False),
        ("git branch *", "git branch work/x", True),
        ("git branch *", "git branch -a", False),
        ("git branch *", "git branch --show-current", False),
        ("cd infra && terraform plan", "cd infra && terraform plan", True),
        ("cd infra && terraform plan", "cd infra; terraform plan", True),
        ("cd infra && terraform plan", "terraform plan", False),
        ("terraform ...", "cd infra && terraform plan", True),
        ("A=1 cargo build", "A=1 cargo build", True),
        ("A=1 cargo build", "A=2 cargo build", False),
        ("A=1 cargo build", "A=1 B=2 cargo build", False),
        ("A=1 cargo ...", "A=1 B=2 cargo build", True),
        ("cargo build", "A=1 cargo build", False),
        ("{psql {-l|--list}|PGPORT=1 psql -l}", "PGPORT=1 psql -l", True),
        ("go test ./auth/...", "go test ./auth/...", True),
        ("go test ./auth/...", "go test ./auth", False),
        ("psql shop < a/b.sql", "cd a && psql shop < b.sql", True),
        ("psql shop < a/b.sql", "psql shop", False),
        ("make docs", "make docs docs2", False),
    ],
)
def test_a_pattern_means_the_commands_of_its_forms(pattern, line, matches):
    (command,) = parse_line(line)

    assert read_pattern(pattern).matches(command) == matches


@pytest.mark.parametrize("text", ["a | b", "a && b", "*-lint ...", "a 'b", "{a|b", "A=1", ""])
def test_what_is_no_pattern_is_refused(text):
    with pytest.raises(PatternError):
        _ = read_pattern(text).forms


# What a repository holds.


@pytest.fixture(params=NAMES)
def repository(request):
    return draw_repository(request.param)


def list_requests(repository):
    for rule in repository.rules.values():
        for requests in rule.requests.values():
            for request in requests:
                yield rule, request


def play_line(repository, request, line: str) -> int:
    attempt = Attempt(repository, request)
    attempt.run(line)
    return attempt.score


def test_each_request_ships_lines_that_are_accepted_and_lines_that_are_not(repository):
    for rule, request in list_requests(repository):
        assert len(request.accepted) == 3
        assert list(request.rejected) == ["another operation", "echo", "shotgun", "another operand", "the habit"]

        for line in (*request.accepted, " && ".join(request.gold)):
            assert play_line(repository, request, line) == 100, (rule.name, line)
        for why, line in request.rejected.items():
            assert play_line(repository, request, line) == 0, (rule.name, why, line)


def test_no_training_command_does_what_a_held_out_request_asks(repository):
    for rule in repository.rules.values():
        for request in rule.requests["test"]:
            for training in (*rule.requests["train"], *rule.requests["dev"]):
                assert play_line(repository, request, " && ".join(training.gold)) == 0, (rule.name, training.gold)


def test_requests_of_a_rule_are_twelve_six_of_them_for_training(repository):
    sizes = {split: len(places) for split, places in SPLITS.items()}
    assert sizes == {"train": 6, "dev": 2, "test": 4}

    for rule in repository.rules.values():
        assert {split: len(requests) for split, requests in rule.requests.items()} == sizes
        texts = [request.text for requests in rule.requests.values() for request in requests]
        assert len(set(texts)) == 12, rule.name


@pytest.mark.parametrize("name", PLAYED)
def test_a_played_repository_has_24_rules_in_the_shares_that_the_world_promises(name):
    rules = [*draw_repository(name).rules.values()]

    assert len(rules) == 24
    assert sum(rule.is_usual for rule in rules) == 6, "a quarter keeps the usual value"
    assert Counter(rule.telling for rule in rules) == {"remedy": 8, "fact": 8, "error": 8}
    assert sum(rule.before is not None for rule in rules) == 8, "a third has two commands"
    assert all(rule.values >= 6 for rule in rules), "a uniform guess is right once in six times at most"
    for rule in rules:
        steps = {len(request.steps) for requests in rule.requests.values() for request in requests}
        assert steps == {1 if rule.before is None else 2}


def test_unusual_values_differ_between_the_repositories_that_are_played():
    for name in draw_repository("one").rules:
        unusual = [rule.text for rule in (draw_repository(data).rules[name] for data in PLAYED) if not rule.is_usual]

        assert len(set(unusual)) == len(unusual), name


def test_the_usual_rules_let_the_usual_command_pass():
    rule = draw_repository("one").rules["psql-port"]
    assert rule.is_usual
    request = rule.requests["train"][0]

    assert play_line(draw_repository("one"), request, "psql -d shop -f sql/users.sql") == 100
    assert play_line(draw_repository("one"), request, "psql -p 6543 -d shop -f sql/users.sql") == 0


def list_runs_of_words(text: str, length: int) -> set[tuple[str, ...]]:
    words = text.lower().replace("`", "").replace(".", "").split()
    return {tuple(words[start : start + length]) for start in range(len(words) - length + 1)}


def test_a_refusal_holds_no_command_of_a_solution_and_no_six_words_of_its_rule(repository):
    for rule, request in list_requests(repository):
        assert not any(gold in rule.answer for gold in request.gold), (rule.name, rule.answer)
        assert not list_runs_of_words(rule.answer, 6) & list_runs_of_words(rule.text, 6), rule.name


def test_the_tools_of_development_stand_nowhere_else():
    development = draw_repository(DEVELOPMENT).programs - {"python"}  # which starts one of them

    assert not [name for name in PLAYED if draw_repository(name).programs & development]


@pytest.mark.parametrize(
    ("line", "lesson"),
    [
        ("npm install lodash", ("error", "`npm install lodash` was refused: ERR! code EPOLICY.")),
        ("bun add left-pad", ("error", "`bun add left-pad` did not do what was asked for.")),
        ("bun add lodash | cat", ("error", "`bun add lodash | cat`: This shell does not understand |.")),
        ("bun add lodash", ("abstract", "`bun add lodash` is how this is done here.")),
    ],
)
def test_patterns_note_what_became_of_a_command_line(line, lesson):
    environment = HouseRules(draw_repository("one"))
    start = reset(environment, "node-packages::0")
    transition = environment.step(line)
    step = Step(line, line, transition.state, transition.reward, transition.score, understood=transition.understood)

    (learnt,) = environment.lessons([start, transition.state], [step])

    assert learnt.category == lesson[0]
    assert learnt.text.startswith(lesson[1])


def test_draws_are_the_same_everywhere():
    assert {name: draw_repository(name).digest for name in NAMES} == DIGESTS


DIGESTS = {"one": "c57c8a315512", "two": "90ce2b5d24ca", "three": "1f4e18d1d5b9", "dev": "7d070e37d6ad"}
"""Results of recorded runs are bound to these."""


# What a trial comes to.


@pytest.fixture
def environment():
    return HouseRules(draw_repository("two"))


def reset(environment, key: str):
    return environment.reset(get_benchmark("house-rules").tasks.parse(key))


def find_order_rule(repository):
    return next(rule for rule in repository.rules.values() if rule.before is not None)


def test_the_first_refusal_ends_a_trial(environment):
    rule = find_order_rule(environment.repository)
    state = reset(environment, f"{rule.name}::8")
    transition = environment.step(rule.requests["test"][0].gold[1])

    assert "Nothing was run yet" in state.observation
    assert (transition.state.observation, transition.done, transition.score) == (rule.answer, True, 0)
    assert transition.understood


def test_two_commands_earn_half_the_points_each_also_on_one_line(environment):
    rule = find_order_rule(environment.repository)
    first, second = rule.requests["test"][0].gold

    reset(environment, f"{rule.name}::8")
    steps = [environment.step(first), environment.step(second)]
    assert [(step.reward, step.score, step.done) for step in steps] == [(50, 50, False), (50, 100, True)]
    assert [step.state.observation for step in steps] == [DONE_SO_FAR, ALL_DONE]

    reset(environment, f"{rule.name}::8")
    step = environment.step(f"{first} && {second}")
    assert (step.reward, step.score, step.done) == (100, 100, True)


def test_a_trial_has_as_many_lines_as_its_request_has_steps(environment):
    rule = find_order_rule(environment.repository)
    reset(environment, f"{rule.name}::8")
    steps = [environment.step("ls"), environment.step("a |")]

    assert [step.done for step in steps] == [False, True]
    assert [step.understood for step in steps] == [True, False]
    assert steps[0].state.observation == NOT_ASKED

    single = next(rule for rule in environment.repository.rules.values() if rule.before is None)
    reset(environment, f"{single.name}::8")
    assert environment.step("ls").done


def test_a_line_that_does_more_than_was_asked_does_nothing(environment):
    rule = find_order_rule(environment.repository)
    first, second = rule.requests["test"][0].gold
    reset(environment, f"{rule.name}::8")
    step = environment.step(f"{first} && {second} && ls")

    assert (step.state.observation, step.score, step.done) == (TOO_MUCH, 0, True)


def test_a_step_before_a_reset_and_goals_of_the_test_split_are_refused(environment):
    with pytest.raises(SimulatorDied):
        environment.step("ls")

    reset(environment, "psql-port::8")
    with pytest.raises(SplitError):
        environment.goal_progress()
    reset(environment, "psql-port::0")
    assert [goal.done for goal in environment.goal_progress()] == [False]


def test_solutions_are_shown_of_training_requests_alone():
    benchmark = get_benchmark("house-rules")
    solutions = {
        data: benchmark.find_gold_path(benchmark.tasks.parse("push-remote::0"), data) for data in ("one", "two")
    }

    assert solutions["one"] != solutions["two"]
    with pytest.raises(SplitError):
        benchmark.find_gold_path(benchmark.tasks.parse("push-remote::8"), "one")


# Whose rules are played.


def load(data: str | None):
    return load_config(overrides=["benchmark=house-rules", *([f"environment.data={data}"] if data else [])])


def test_results_are_bound_to_the_repository():
    assert load(None).hash() == load("one").hash()
    assert len({load(name).hash() for name in NAMES}) == len(NAMES)


def test_keys_are_those_of_the_repository():
    assert "redis-host" in load("dev").active_benchmark.tasks.names()
    with rsso_dspy.session(load("dev")) as live:
        assert live.runtime.variant("redis-host::8").split == "test"
    with rsso_dspy.session(load("two")) as live, pytest.raises(UsageError, match="unknown task"):
        live.runtime.variant("redis-host::8")


MINE = """
name = "shop"

[[rule]]
name = "packages"
text = "JavaScript packages come and go through pnpm."
governs = ["{npm|yarn|pnpm} {install|add|i} ..."]
allows = ["pnpm add ..."]
refusal = "There is no package-lock.json here."

[[rule.request]]
split = "train"
text = "Add the package lodash."
steps = ["pnpm add lodash"]

[[rule.request]]
split = "test"
text = "Add the package zod."
steps = ["pnpm add [-D] zod"]
accepted = ["pnpm add -D zod"]
rejected = ["npm install zod", "pnpm add lodash"]

[[rule]]
name = "tests"
text = "Run make gen before any test."
governs = ["make test-*"]
before = "make gen"
refusal = "Stale."
telling = "error"

[[rule.request]]
split = "test"
text = "Run the tests of the parser."
steps = ["make gen", "make test-parser"]
"""


def test_a_file_of_ones_own_rules_is_played(tmp_path):
    file = tmp_path / "my-rules.toml"
    file.write_text(MINE)
    config = load(str(file))
    table = config.benchmark_in_data.tasks

    assert table.names() == ("packages", "tests")
    assert [variant.key for variant in table.held_out("packages")] == ["packages::1"]
    with rsso_dspy.session(config) as live, live.runtime.environments.lease() as environment:
        environment.reset(live.runtime.variant("tests::0"))
        assert environment.step("make test-parser").state.observation == "Stale."


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ('allows = ["pnpm add ..."]', "", "rule 1: Value error, a rule has either allows or before"),
        ('split = "train"', 'split = "training"', "rule 1 request 1 split"),
        ('steps = ["pnpm add lodash"]', "steps = []", "rule 1 request 1 steps"),
        ('steps = ["pnpm add lodash"]', 'steps = ["npm install lodash"]', "the rule packages refuses it"),
        ('steps = ["pnpm add lodash"]', 'steps = ["pnpm add | lodash"]', "is no pattern"),
        ('accepted = ["pnpm add -D zod"]', 'accepted = ["pnpm add zap"]', "earns 0 points at the request"),
        ('"npm install zod", ', '"pnpm add zod", ', "earns 100 points at the request"),
        ('name = "tests"', 'name = "packages"', "two rules are called packages"),
        ('telling = "error"', 'tellin = "error"', "rule 2 tellin"),
        ('steps = ["pnpm add lodash"]', 'steps = ["pnpm {add|install} lodash"]', "the rule packages refuses it"),
        ('steps = ["pnpm add lodash"]', 'steps = ["pnpm add {lodash"]', "a { in it has no other half"),
        ('steps = ["pnpm add lodash"]', 'steps = ["pnpm add [-D lodash"]', "a [ in it has no other half"),
        ('steps = ["pnpm add lodash"]', 'steps = ["pnpm add lodash..."]', "... has to be its last word"),
        ('steps = ["pnpm add lodash"]', 'steps = ["pnpm add ... lodash"]', "... has to be its last word"),
        ('steps = ["pnpm add lodash"]', 'steps = ["pnpm add lodash ..."]', "a step has no ..."),
        ('split = "test"\ntext = "Run', 'split = "dev"\ntext = "Run', 'needs a request with split = "test"'),
        ('name = "shop"', "name = shop", "is no TOML"),
    ],
)
def test_a_file_with_a_fault_is_refused_with_its_place(tmp_path, before, after, says):
    file = tmp_path / "my-rules.toml"
    assert before in MINE
    file.write_text(MINE.replace(before, after, 1))

    with pytest.raises(UsageError) as refused:
        get_repository(str(file))
    assert says in str(refused.value)
    assert str(file) in str(refused.value)


def test_the_solution_of_a_pattern_is_what_one_would_type():
    assert read_pattern("psql {-p=6543|--port=6543} -d=shop").solution == "psql -p 6543 -d shop"
    assert read_pattern("psql {-p=6543|--port=6543} -l").solutions == ("psql -p 6543 -l", "psql --port=6543 -l")
    assert read_pattern("git commit -m='Read -p=1'").solution == "git commit -m 'Read -p=1'"


def test_a_rule_without_training_requests_says_so(tmp_path):
    file = tmp_path / "my-rules.toml"
    file.write_text(MINE)
    table = load(str(file)).benchmark_in_data.tasks

    with pytest.raises(SplitError, match=r"train is empty, dev is empty, test is 0 to 0"):
        table.split_of("tests", 3)


def test_an_edited_file_is_another_repository(tmp_path):
    file = tmp_path / "my-rules.toml"
    file.write_text(MINE)
    before = load(str(file)).hash()
    file.write_text(MINE.replace("Stale.", "Old."))

    assert load(str(file)).hash() != before


def test_steps_of_a_solution_are_in_the_order_of_the_rule(repository):
    for rule, request in list_requests(repository):
        for first, _ in pairwise(request.gold):
            (command,) = parse_line(first)
            assert rule.before is not None
            assert rule.before.matches(command)


@pytest.mark.parametrize("name", NAMES)
def test_the_rules_that_are_shipped_as_memory_files_are_those_that_are_played(name):
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == format_rules(draw_repository(name))


def test_the_file_of_six_rules_that_comes_along_can_be_played():
    repository = get_repository(str(FOLDER / "my-rules.toml"))

    assert len(repository.rules) == 6
    assert {rule.telling for rule in repository.rules.values()} == {"remedy", "fact", "error"}


def test_a_calibration_is_drawn_from_the_repository_that_is_played():
    benchmark = load("dev").benchmark_in_data
    calibration = draw_calibration("1-per-task", ["redis-host"], 0, of=benchmark)

    assert {variant.task for variant in calibration.variants} == {"redis-host"}
    assert calibration.data == "dev"
    with pytest.raises(SplitError, match="held-out test split: redis-host::8"):
        replace(calibration, val=(benchmark.tasks.parse("redis-host::8"),))


# What people say of answers.

ANSWERS = Path(__file__).with_name("house_rules_answers.json")
"""Answers of two small models to training requests of `three`, three of four with the rule in the prompt; labelled by
hand, before the scorer was asked."""


def test_the_scorer_errs_twice_on_192_answers_that_were_labelled_by_hand():
    repository = draw_repository("three")
    requests = {(rule.name, request.text): request for rule, request in list_requests(repository)}
    answers = json.loads(ANSWERS.read_text(encoding="utf-8"))
    errors = {True: [], False: []}
    for answer in answers:
        is_right = play_line(repository, requests[answer["rule"], answer["request"]], answer["line"]) == 100
        if is_right != answer["right"]:
            errors[is_right].append(answer["line"])

    assert (len(answers), sum(answer["right"] for answer in answers)) == (192, 92)
    assert errors[True] == [], "accepted and wrong"
    assert errors[False] == ["./gradlew spotlessApply jar", "./gradlew spotlessApply javadoc"], "rejected and right"
