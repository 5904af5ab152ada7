"""tau2: tickets solved, the reward of the package's own evaluator beside our points, calls, and the process."""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

if find_spec("tau2") is None:
    pytest.skip("the extra tau2 is not installed", allow_module_level=True)

import rsso_dspy
from rsso_dspy.environments.tau2 import BENCHMARK, environment, tasks
from rsso_dspy.environments.tau2.calls import Call, CallError, Parameter, Tool, read_call
from rsso_dspy.environments.tau2.environment import ENDED, MOST_ERRORS, MOST_STEPS, Telecom
from rsso_dspy.errors import SimulatorDied, SplitError, Stopped
from rsso_dspy.store.run_folder import Store
from scripts import make_tau2_examples

TABLE = BENCHMARK.tasks
DATA = TABLE.variant("mobile_data_issue", 25)  # data saver on, and the data of the plan used up
REFUEL = 'refuel_data(customer_id="C1001", line_id="L1002", gb_amount=2.0)'
TEST = [TABLE.variant(task, index) for task in TABLE.names() for index in TABLE.indices(task, "test")]


@pytest.fixture(scope="module")
def env():
    played = Telecom()
    yield played
    played.close()


def play(env, variant, actions):
    """Return the first state and the transitions of a play."""
    return env.reset(variant), [env.step(action) for action in actions]


# The source's own verdict.


def rate(variant, transitions) -> float:
    """Return the reward that the package's evaluator gives for these calls and answers."""
    from tau2.data_model.message import AssistantMessage, ToolCall, ToolMessage
    from tau2.data_model.simulation import SimulationRun, TerminationReason
    from tau2.data_model.tasks import Task
    from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation

    messages = []
    for number, transition in enumerate(transitions):
        if transition.action == "done()":
            continue
        call = read_call(transition.action, {tool.name: tool for tool in TOOLS})
        made = ToolCall(id=str(number), name=call.name, arguments=dict(call.arguments), requestor="assistant")
        messages.append(AssistantMessage(role="assistant", tool_calls=[made]))
        answer = transition.state.observation
        messages.append(ToolMessage(id=str(number), role="tool", content=answer, requestor="assistant"))
    stops = transitions[-1].action == "done()"
    run = SimulationRun(
        id="a",
        task_id="b",
        start_time="",
        end_time="",
        duration=0,
        termination_reason=TerminationReason.AGENT_STOP if stops else TerminationReason.MAX_STEPS,
        messages=messages,
    )
    task = Task.model_validate(tasks.load_ticket(variant))
    return evaluate_simulation(run, task, EvaluationType.ALL, solo_mode=True, domain="telecom").reward


TOOLS: list[Tool] = []


@pytest.fixture(scope="module")
def package(env):
    """The package, imported without a file of keys."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHON_DOTENV_DISABLED", "1")
        pytest.importorskip("tau2.evaluator.evaluator")
    env.reset(DATA)
    TOOLS[:] = env._tools.values()


@pytest.mark.usefixtures("package")
def test_the_calls_of_the_package_solve_the_40_tickets_of_its_test_by_its_own_evaluator(env):
    assert len(TEST) == 40
    for variant in TEST:
        _, transitions = play(env, variant, tasks.find_solution(variant))

        assert all(transition.understood and not transition.no_effect for transition in transitions)
        assert (transitions[-1].score, transitions[-1].done) == (100, True), variant.key
        assert rate(variant, transitions) == 1, variant.key


def drop_first(actions):
    return actions[1:]


def drop_last_call(actions):
    return [*actions[:-2], actions[-1]]


def close_at_once(actions):
    return actions[-1:]


def never_close(actions):
    return actions[:-1]


def switch_twice(actions):
    return [*actions[:-1], "toggle_airplane_mode()", actions[-1]]


BROKEN = (drop_first, drop_last_call, close_at_once, never_close, switch_twice)


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize("break_play", BROKEN)
def test_a_broken_play_has_100_points_exactly_where_the_reward_of_the_package_is_1(env, break_play):
    rewards = []
    for variant in TEST[::4]:
        _, transitions = play(env, variant, break_play(list(tasks.find_solution(variant))))
        rewards.append(rate(variant, transitions))

        assert (transitions[-1].score == 100) == (rewards[-1] == 1), variant.key

    assert 0 in rewards
    if break_play in (close_at_once, never_close):
        assert set(rewards) == {0}


def test_points_are_the_share_of_what_is_met_and_100_comes_with_the_last_call(env):
    """Three assertions: mobile data on, an excellent speed, 2 GB bought."""
    _, transitions = play(env, DATA, ["run_speed_test()", REFUEL, "toggle_data_saver_mode()", "done()"])

    assert env.points_at_reset == 0
    assert [transition.score for transition in transitions] == [0, 66, 99, 100]
    assert [transition.done for transition in transitions] == [False, False, False, True]
    assert transitions[-1].state.observation == ENDED


def test_points_go_with_what_holds_no_more(env):
    _, transitions = play(env, DATA, [REFUEL, "toggle_data_saver_mode()", "toggle_data()", "toggle_data()", "done()"])

    assert [transition.score for transition in transitions] == [66, 99, 33, 99, 100]


# Tickets and splits.


def test_the_test_split_is_that_of_the_package_and_the_last_tenth_of_the_rest_is_for_development():
    splits = json.loads((tasks.find_folder() / "split_tasks.json").read_text())
    counts = {task: [len(TABLE.indices(task, split)) for split in ("train", "dev", "test")] for task in TABLE.names()}

    assert counts == {"service_issue": [12, 2, 15], "mobile_data_issue": [24, 3, 9], "mms_issue": [29, 4, 16]}
    assert {tasks.load_ticket(variant)["id"] for variant in TEST} == {*splits["test"]}
    assert not {*splits["test"]} & {*splits["train"]}
    for task in TABLE.names():
        trained = [name for name in splits["train"] if name.startswith(f"[{task}]")]
        first = TABLE.indices(task, "dev")[0]
        assert tasks.load_ticket(TABLE.variant(task, first))["id"] == trained[first]


def test_solutions_of_training_tickets_earn_100(env):
    for task in TABLE.names():
        for index in TABLE.indices(task, "train")[::3]:
            variant = TABLE.variant(task, index)
            _, transitions = play(env, variant, BENCHMARK.find_gold_path(variant))

            assert transitions[-1].score == 100, variant.key


def test_nothing_of_a_test_ticket_is_told(env):
    variant = TEST[0]
    env.reset(variant)

    with pytest.raises(SplitError, match="shown to nobody"):
        env.goal_progress()
    with pytest.raises(SplitError):
        BENCHMARK.find_gold_path(variant)


def test_goals_are_the_assertions_by_their_names(env):
    env.reset(DATA)
    env.step(REFUEL)
    goals = [(goal.kind, goal.done) for goal in env.goal_progress()]

    expected = [("mobile_data_status", True), ("internet_speed", False), ("data_refueling_amount", True)]
    assert goals == [*expected, ("ticket", False)]
    kinds = {goal["func_name"].removeprefix("assert_") for ticket in tasks.read_tickets().values()
             for goal in ticket["evaluation_criteria"]["env_assertions"]}  # fmt: skip
    assert {*kinds, "action", "ticket"} == {*BENCHMARK.hints.goals}


def test_an_actor_reads_the_ticket_the_whole_policy_and_every_tool(env):
    env.reset(DATA)
    folder = tasks.find_folder()
    policy = "\n".join((folder / name).read_text() for name in ("main_policy_solo.md", "tech_support_manual.md"))

    assert env.task == tasks.load_ticket(DATA)["ticket"]
    assert len(policy) > 22_000
    for line in policy.splitlines():
        assert line in env.action_templates
    listed = [line for line in env.action_templates.splitlines() if line.startswith("- ") and " (" in line]
    assert {line[2:].partition(" ")[0] for line in listed} >= {*env._tools}
    assert len(env._tools) == 43 + 1, "and done, which the source adds"
    assert "set_network_mode_preference (mode: string of 4g_5g_preferred, 4g_only, 3g_only, 2g_only)" in "".join(listed)


# Calls.

REFUEL_TOOL = Tool(
    "refuel_data",
    "",
    {
        "customer_id": Parameter(("string",), True),
        "gb_amount": Parameter(("number",), True),
        "limit": Parameter(("integer",), False, 12),
    },
)
KNOWN = {"refuel_data": REFUEL_TOOL, "done": Tool("done", "", {})}


@pytest.mark.parametrize(
    "text",
    [
        'refuel_data(customer_id="C1", gb_amount=2.0)',
        "refuel_data('C1', gb_amount=2)",
        ' refuel_data( customer_id = "C1" , gb_amount = 2.0 ) ',
        '{"name": "refuel_data", "arguments": {"customer_id": "C1", "gb_amount": 2}}',
    ],
)
def test_a_call_is_read_in_either_form(text):
    assert read_call(text, KNOWN) == Call("refuel_data", {"customer_id": "C1", "gb_amount": 2.0})


def test_a_call_without_arguments_is_read_in_either_form():
    assert read_call("done()", KNOWN) == read_call('{"name": "done"}', KNOWN) == Call("done", {})


SIGNATURE = r"expected: refuel_data \(customer_id: string, gb_amount: number, limit: integer = 12\)"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "this is no call of a tool; expected: tool_name"),
        ("refuel the data", "this is no call of a tool; expected: tool_name"),
        ("refuel_data", "this is no call of a tool; expected: tool_name"),
        ("refuel_data.run()", "this is no call of a tool; expected: tool_name"),
        ("done(); done()", "this is no call of a tool; expected: tool_name"),
        ("done(\0)", "this is no call of a tool; expected: tool_name"),
        ("(" * 5000, "this is no call of a tool; expected: tool_name"),
        ("refule_data()", "there is no tool refule_data; did you mean refuel_data"),
        ("__import__('os').system('x')", "this is no call of a tool"),
        ("eval('1')", "there is no tool eval; expected: one of the tools"),
        ("refuel_data(gb_amount=2)", f"refuel_data lacks customer_id; {SIGNATURE}"),
        ("refuel_data('C1', 2, 3, 4)", f"takes 3 arguments, not 4; {SIGNATURE}"),
        ("refuel_data('C1', customer_id='C1', gb_amount=2)", f"customer_id of refuel_data is there twice; {SIGNATURE}"),
        ("refuel_data(customer_id='C1', gb_amount=2, to='me')", f"refuel_data has no argument to; {SIGNATURE}"),
        ("refuel_data(customer_id=1, gb_amount=2)", f"customer_id of .* has to be of the type string; {SIGNATURE}"),
        ("refuel_data(customer_id='C1', gb_amount='2')", "gb_amount of refuel_data has to be of the type number"),
        ("refuel_data(customer_id='C1', gb_amount=True)", "gb_amount of refuel_data has to be of the type number"),
        ("refuel_data(customer_id='C1', gb_amount=1e999)", "is no value of JSON"),
        ("refuel_data(customer_id=open('x'), gb_amount=2)", "an argument is no literal"),
        ("refuel_data(**{})", "arguments have names"),
        ('{"name": "done", "arguments": []}', 'this is no call; expected: {"name"'),
        ('{"name": "done", "to": 1}', 'this is no call; expected: {"name"'),
        ('{"name": ', 'this is no JSON; expected: {"name"'),
        ("{" * 5000, "this is no JSON"),
    ],
)  # fmt: skip
def test_what_is_no_call_is_refused_with_what_is_expected(text, why):
    with pytest.raises(CallError, match=why):
        read_call(text, KNOWN)


def test_what_is_no_call_changes_nothing_and_a_refused_one_is_understood(env):
    refused = 'get_details_by_id(id="L9999")'
    _, transitions = play(env, DATA, ["toggle_data(now=True)", "nonsense", refused, "check_network_status()"])

    assert [transition.understood for transition in transitions] == [False, False, True, True]
    assert [transition.no_effect for transition in transitions] == [False, False, True, False]
    assert transitions[2].state.observation == "Error: Line with ID L9999 not found"
    assert "Mobile Data Enabled: Yes" in transitions[3].state.observation
    assert all(transition.score == transitions[0].score for transition in transitions)


def test_ten_refused_calls_end_an_episode_as_in_the_source(env):
    _, transitions = play(env, DATA, ["nonsense"] * MOST_ERRORS)

    assert MOST_ERRORS == 10
    assert [transition.done for transition in transitions] == [False] * 9 + [True]
    assert transitions[-1].score < 100


def test_a_trial_has_as_many_calls_as_the_source_gives(env):
    """200 steps of its command line, of which a call and its answer take two."""
    _, transitions = play(env, DATA, ["run_speed_test()"] * MOST_STEPS)

    assert MOST_STEPS == 200 // 2 == BENCHMARK.limit_steps(int(1.5 * tasks.GOLD_LENGTH))
    assert [transition.done for transition in transitions] == [False] * 99 + [True]


# The same play gives the same texts, in the package's own process.


def test_bills_have_the_same_ids_in_every_play(env):
    """The package draws them at random, where a customer has no bill that is a draft."""
    refuel = 'refuel_data(customer_id="C1002", line_id="L1004", gb_amount=1.0)'
    actions = [refuel, 'get_bills_for_customer(customer_id="C1002")', 'get_details_by_id(id="B00000001")']
    first = play(env, DATA, actions)
    play(env, TEST[0], [refuel, "toggle_airplane_mode()"])
    again = play(env, DATA, actions)
    other = Telecom()
    in_another_process = play(other, DATA, actions)
    other.close()

    assert first == again == in_another_process
    assert not first[1][2].no_effect


def test_texts_do_not_depend_on_the_order_of_sets():
    """What three processes with hash seeds of their own say of the first test ticket of each type."""
    program = (
        "from rsso_dspy.environments.tau2 import BENCHMARK, tasks\n"
        "env = BENCHMARK.make_environment(type('S', (), {'step_seconds': 20.0}), lambda: False)\n"
        "for task in BENCHMARK.tasks.names():\n"
        "    variant = BENCHMARK.tasks.held_out(task)[0]\n"
        "    print(env.reset(variant), env.action_templates, env.task)\n"
        "    print([env.step(each) for each in ('check_installed_apps()', *tasks.find_solution(variant))])\n"
    )
    texts = set()
    for seed in ("0", "1", "2"):
        settings = {**os.environ, "PYTHONHASHSEED": seed}
        texts.add(subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, check=True).stdout)

    assert len(texts) == 1


def test_importing_the_package_writes_nothing_and_takes_no_key(tmp_path, monkeypatch, capfd):
    """Its own import reads a file `.env` and warns on stderr."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    played = Telecom()
    played.reset(DATA)
    played.step("run_speed_test()")
    played.close()

    assert not [*tmp_path.iterdir()]
    assert capfd.readouterr() == ("", "")


def test_a_process_that_died_is_told_and_a_closed_environment_plays_no_more():
    played = Telecom()
    played.reset(DATA)
    os.kill(played._process.pid, signal.SIGKILL)
    with pytest.raises(SimulatorDied, match="the process of tau2 ended"):
        played.step("run_speed_test()")
    assert not played.alive
    with pytest.raises(SimulatorDied, match="was closed"):
        played.reset(DATA)
    played.close()


def test_a_call_that_takes_too_long_ends_the_trial_and_keeps_its_score():
    played = Telecom()
    played.reset(DATA)
    os.kill(played._process.pid, signal.SIGSTOP)
    played._step_seconds = 0.3
    transition = played.step(REFUEL)
    played.close()

    assert (transition.stalled, transition.score, transition.reward) == (True, 0, 0)


def test_a_reset_that_is_stopped_or_takes_too_long_leaves_no_process(monkeypatch):
    stopped = Telecom(stopped=lambda: True)
    with pytest.raises(Stopped):
        stopped.reset(DATA)
    assert stopped._process is None

    monkeypatch.setattr(environment, "LOAD_SECONDS", -1.0)
    slow = Telecom()
    with pytest.raises(SimulatorDied, match="a reset took over"):
        slow.reset(DATA)
    assert slow._process is None


# Runs.


def test_four_trials_without_memory_are_repeats_and_the_report_says_pass_k(tmp_path):
    rsso = [sys.executable, "-m", "rsso_dspy"]
    run = ["run", "--benchmark", "tau2", "--methods", "react,reflexion", "--per-task", "1", "--trials", "4"]
    settings = ["--set", "protocol.stop_on_success=false", "--set", "embedder.model=hash", "--out", "run"]
    subprocess.run([*rsso, *run, *settings], cwd=tmp_path, check=True, capture_output=True)

    assert {len(unit.trajectories) for unit in Store(tmp_path / "run").units()} == {4}
    report = subprocess.run([*rsso, "report", "run"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    report = " ".join(report.split())
    for k in (1, 2, 3, 4):
        assert f"react trials {k} 3 0.0" in report
    assert "of 3 task types differ, and a test needs 6 (--over variants asks about other variants of these)" in report


def test_the_same_run_twice_has_the_same_trials(tmp_path):
    for name in "ab":
        rsso_dspy.run(
            ["react"],
            benchmark="tau2",
            out=tmp_path / name,
            settings=["embedder.model=hash"],
            per_task=1,
            trials=1,
            progress=False,
        )
    first, second = ([unit.trajectories for unit in Store(tmp_path / name).units()] for name in "ab")

    assert first == second
    assert len(first) == 3


def test_examples_are_what_the_tickets_say_today():
    assert make_tau2_examples.FILE.read_text(encoding="utf-8") == make_tau2_examples.write_file()
