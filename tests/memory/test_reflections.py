"""Reflection memory: written after failures only, first in first out, read once per trial; its eight improvements, and
what ends a trial as exhausted."""

import json
import re
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.scienceworld.actions import name_place
from rsso_dspy.errors import ConfigError
from rsso_dspy.loops import describe_loops, find_loop, is_repeated
from rsso_dspy.memory import NOTHING, reflections
from rsso_dspy.memory.patterns import PatternMemory
from rsso_dspy.memory.reflections import DISTILLER, IMPROVEMENTS, ReflectionMemory, ReflectionSettings
from rsso_dspy.plan import plan_held_out
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from rsso_dspy.protocol import make_reflection_settings, resolve_protocol
from rsso_dspy.records import State, Step, Trajectory, Variant
from rsso_dspy.store.run_folder import Store
from tests.cli.conftest import rsso  # noqa: F401 - a fixture
from tests.live import REWARDED, Engine, acting, model, says, walks
from tests.memory.memory_cases import Answer, lend, plain, walk
from tests.toy_package import installed

FAILED, SOLVED = "a b c+10", "a b c+100"


class Reflector:
    """Writes ``plan after <trial>``, or the plans given; its distiller keeps the first word of what it is handed. Notes
    which earlier plans it was shown."""

    def __init__(self, *improvements, plans=(), distills=True, modules=(), **settings):
        self.plans, self.distills, self.shown = list(plans), distills, []
        chosen = ReflectionSettings(improvements=frozenset(improvements), **settings)
        self.memory = ReflectionMemory(lend(self.ask, modules=modules, reflections=chosen))
        self.memory.begin_trial(walk(FAILED).variant, "")

    def ask(self, name, *, transcript="", earlier_plans="", known_never=(), plans="", task_type="", **_):
        if name == DISTILLER:
            leaving = [each.partition(": ")[2] for each in plans.split("\n\n")]
            never = [*known_never, *(f"Do not {plan}" for plan in leaving)]
            said = Answer(never=never, always=["Look."], strategy=f"{task_type} by {leaving[-1]}")
            return said if self.distills else None
        self.shown.append(earlier_plans)
        plan = self.plans.pop(0) if self.plans else f"plan after {transcript.rpartition(' ')[2]}"
        pattern = f"mistake of {transcript.rpartition(' ')[2]}"
        return None if plan is None else Answer(mistakes="", plan=plan, pattern=pattern)


def memory_of(*improvements, **settings) -> ReflectionMemory:
    return Reflector(*improvements, **settings).memory


def restored(memory: ReflectionMemory, *improvements, **settings) -> ReflectionMemory:
    again = memory_of(*improvements, **settings)
    again.restore(json.loads(json.dumps(memory.snapshot())))
    return again


@pytest.mark.parametrize(
    ("walked", "counts", "text"),
    [
        (FAILED, {"calls": 1, "written": 1, "malformed": 0, "held": 1}, "Attempt 2 at this task: plan after 2"),
        (SOLVED, {"calls": 0, "written": 0, "malformed": 0, "held": 0}, ""),
        (
            "a b+60 c+60 d+-200",
            {"calls": 1, "written": 1, "malformed": 0, "held": 1},
            "Attempt 2 at this task: plan after 2",
        ),
    ],
    ids=["failed", "solved", "points, then below zero"],
)
def test_a_trial_whose_score_is_below_100_writes_one_plan_under_its_own_number(walked, counts, text):
    reflector = Reflector()
    memory = reflector.memory
    assert memory.preamble() == memory.recall([plain("a")], []) == NOTHING
    assert memory.learn(walk(walked, trial=2)) == counts
    assert memory.preamble().text == text
    assert len(reflector.shown) == counts["calls"]


def test_the_oldest_plan_goes_first_numbers_stay_true_and_a_restored_memory_goes_on():
    reflector = Reflector()
    memory = again = reflector.memory
    for trial in range(1, 6):
        again = restored(memory)
        memory.learn(walk(FAILED, trial))
    assert memory.preamble().items == (
        "Attempt 3 at this task: plan after 3",
        "Attempt 4 at this task: plan after 4",
        "Attempt 5 at this task: plan after 5",
    )
    assert memory.preamble().ids == ("attempt-3", "attempt-4", "attempt-5")
    assert reflector.shown[-1] == ["plan after 2", "plan after 3", "plan after 4"]
    again.learn(walk(FAILED, 5))
    assert (again.snapshot(), again.preamble()) == (memory.snapshot(), memory.preamble())
    assert [each.plan for each in memory.entries(memory.snapshot())] == ["plan after 3", "plan after 4", "plan after 5"]


@pytest.mark.parametrize("answer", [None, "", "  \n"])
def test_a_malformed_answer_is_counted_and_displaces_nothing(answer):
    memory = memory_of(plans=["plan", answer], size=1)
    memory.learn(walk(FAILED, 1))
    assert memory.learn(walk(FAILED, 2)) == {"calls": 1, "written": 0, "malformed": 1, "held": 1}
    assert memory.preamble().text == "Attempt 1 at this task: plan"


def fail(memory: ReflectionMemory, key: str, task: str = "", trial: int = 1, points: int = 0) -> str:
    """A trial of a variant that ends with these points; what its prompt showed."""
    kind, _, index = key.partition("::")
    variant, task = Variant(kind, int(index)), task or f"Your task is to do {kind}."
    memory.begin_trial(variant, task)
    shown = memory.preamble().text
    step = Step("act", "act", State("", "", ""), points, points, True)
    memory.learn(Trajectory(variant, trial, task, State("", "", ""), 0, (step,), "solved" if points else "failed"))
    return shown


def solve(memory: ReflectionMemory, key: str, task: str = "", trial: int = 1) -> str:
    return fail(memory, key, task, trial, 100)


def hand_on(memory: ReflectionMemory, *improvements, **settings) -> ReflectionMemory:
    after = memory_of(*improvements, **settings)
    after.restore(json.loads(json.dumps(reflections.pass_on_reflections(memory.snapshot()))))
    return after


def test_an_adaptive_window_shows_five_plans_after_five_failures():
    memory = memory_of("adaptive")
    held = [memory.learn(walk(FAILED, trial))["held"] for trial in range(1, 8)]
    assert held == [1, 2, 3, 3, 5, 5, 5]
    assert restored(memory, "adaptive").preamble() == memory.preamble()
    assert memory.preamble().ids == tuple(f"attempt-{trial}" for trial in range(3, 8))


@pytest.mark.parametrize(("threshold", "kept"), [(0.85, 2), (0.999, 3), (-1.0, 1)])
def test_a_plan_that_says_what_a_kept_one_says_is_dropped(threshold, kept):
    plans = ["open the red door first", "open the red door first now", "heat water in a pot"]
    memory = memory_of("novelty", plans=plans, novelty_threshold=threshold)
    counts = [memory.learn(walk(FAILED, trial)) for trial in (1, 2, 3)]
    assert counts[-1]["held"] == kept == 3 - sum(each["similar"] for each in counts)
    assert [each["calls"] for each in counts] == [1, 1, 1]


@pytest.mark.parametrize("how", [{"improvements": ["hierarchical"]}, {"improvements": [], "modules": [DISTILLER]}])
def test_plans_that_leave_are_distilled_into_a_bounded_long_term_part(how):
    memory = memory_of(*how.pop("improvements"), **how)
    counts = [memory.learn(walk(FAILED, trial)) for trial in range(1, 20)]
    assert [each["distilled"] for each in counts[:5]] == [0, 0, 0, 1, 1]
    assert counts[3]["calls"] == 2
    text = memory.preamble().text
    assert text.startswith("- Never do:\n  - Do not plan after 7\n")
    assert (
        "Always do:\n  - Look.\n  Strategy for boil: boil by plan after 16\n- Attempt 17 at this task: plan after 17"
        in text
    )
    assert restored(memory, "hierarchical").preamble() == memory.preamble()
    memory = memory_of("hierarchical", size=1, distills=False)
    memory.learn(walk(FAILED, 1))
    counts = {"calls": 2, "written": 1, "malformed": 1, "distilled": 0, "held": 1}
    assert memory.learn(walk(FAILED, 2)) == counts, "a malformed distillation changes nothing"
    assert memory.preamble().text == "Attempt 2 at this task: plan after 2"


def test_across_tasks_keeps_patterns_of_success_and_of_failure_for_each_task_type():
    """Improvement 4 of the notes: for each task type, patterns of success and of failure, after each trial."""
    memory = memory_of("across-tasks")
    fail(memory, "boil::1", trial=1)
    solve(memory, "boil::1", trial=2)
    fail(memory, "melt::1")
    memory = hand_on(memory, "across-tasks")
    shown = fail(memory, "boil::2")
    assert shown == (
        "- Other tasks of this type (boil)\n  What worked:\n  - plan after 2\n  What failed:\n  - mistake of 1"
    )
    assert memory.snapshot()["patterns"] == [
        {"text": "mistake of 1", "variant": "boil::1", "is_success": False},
        {"text": "plan after 2", "variant": "boil::1", "is_success": True},
        {"text": "mistake of 1", "variant": "melt::1", "is_success": False},
        {"text": "mistake of 1", "variant": "boil::2", "is_success": False},
    ]


def test_across_tasks_never_shows_a_variant_what_was_written_on_it():
    memory = memory_of("across-tasks")
    assert fail(memory, "boil::1") == ""
    other = hand_on(memory, "across-tasks")
    assert fail(other, "melt::1") == ""
    same = hand_on(other, "across-tasks")
    assert "mistake of 1" in fail(same, "boil::2", trial=3)
    back = hand_on(same, "across-tasks")
    shown = fail(back, "boil::1")
    assert "mistake of 3" in shown
    assert "mistake of 1" not in shown
    again = fail(back, "boil::1", trial=2)
    assert again.endswith("- Attempt 1 at this task: plan after 1")


def test_of_patterns_the_newest_five_of_a_kind_and_task_type_are_kept_each_once():
    patterns = PatternMemory()
    for number in range(7):
        assert patterns.add_pattern(f"Look {number}.", "boil::1", is_success=False)
        assert not patterns.add_pattern(f"Look {number}.", "boil::1", is_success=False)
    assert patterns.add_pattern("Heat it.", "boil::1", is_success=True)
    assert [pattern.text for pattern in patterns.patterns] == [*(f"Look {n}." for n in range(2, 7)), "Heat it."]
    assert not patterns.add_pattern("None.", "boil::2", is_success=False)
    assert PatternMemory.load(patterns.dump()) == patterns


def test_retrieval_shows_the_nearest_tasks_of_others_and_never_the_variant_itself():
    memory = memory_of("retrieval", retrieved=1)
    for key, task in (("boil::1", "boil water in a pot"), ("grow::4", "grow a plant from seed")):
        fail(memory, key, task)
        memory = hand_on(memory, "retrieval", retrieved=1)
    assert "another task (boil)" in fail(memory, "melt::3", "boil ice in a pot")
    shown = fail(hand_on(memory, "retrieval"), "grow::4", "grow a plant from seed")
    assert "another task (boil)" in shown
    assert "another task (grow)" not in shown
    only = memory_of("retrieval")
    fail(only, "grow::4")
    assert fail(hand_on(only, "retrieval"), "grow::4") == ""


def test_successes_write_what_worked_for_other_variants_and_widen_no_window():
    alone = memory_of("retrieval")
    solve(alone, "boil::1")
    assert fail(hand_on(alone, "retrieval"), "boil::2") == "", "without the setting nothing is written"
    memory = memory_of("retrieval", "adaptive", successes=True)
    solve(memory, "boil::1")
    assert memory.snapshot()["failures"] == 0
    other = hand_on(memory, "retrieval", successes=True)
    assert fail(other, "boil::2") == "- Attempt 1 at another task (boil), which it solved: plan after 1"
    assert [reflection.solved for reflection in other.entries(other.snapshot())] == [False, True]


@pytest.mark.parametrize(
    ("filters", "shown", "stored"),
    [
        ({}, ["boil", "boil", "grow"], 3),
        ({"same_type": True}, ["boil", "boil"], 3),
        ({"outcome": "solved"}, ["boil", "grow"], 2),
        ({"outcome": "failed", "same_type": True}, ["boil"], 2),
    ],
)
def test_retrieval_filters_by_task_type_and_by_success(filters, shown, stored):
    memory = memory_of("retrieval", successes=True)
    for play, key in ((solve, "boil::1"), (fail, "boil::2"), (solve, "grow::1")):
        play(memory, key, "boil or grow")
        memory = hand_on(memory, "retrieval", successes=True, **filters)
    text = fail(memory, "boil::3", "boil or grow")
    assert sorted(re.findall(r"another task \((\w+)\)", text)) == shown
    lent = lend(reflections=ReflectionSettings(improvements=frozenset({"retrieval"}), **filters))
    lent.runtime.stored = memory.entries(memory.snapshot())
    assert fail(ReflectionMemory(lent), "boil::4", "boil or grow").count("another task") == stored


def test_examples_of_a_file_stand_in_the_reflectors_prompt_and_in_the_identity(tmp_path, live):
    file = Path(__file__).parents[2] / "examples/reflexion/reflector-examples.toml"
    config = load_config(overrides=[f"memory.reflections.examples={file}"])
    assert re.fullmatch(r"adapt/4 reflections\.examples=[0-9a-f]{12}", resolve_protocol(config).id)
    lm, asked = walks(live)[0], Engine(lambda _: says(mistakes="It walked.", plan="Sit."))
    settings = make_reflection_settings(config)
    with acting(live, lambda role, *rest: lm(role, *rest) if role == "actor" else model(asked), reflections=settings):
        Agent("reflexion")(variant=REWARDED, trials=2)
    (prompt,) = asked.prompts
    system = prompt.partition("<user>")[0]
    assert (system.count("\nExample "), "Your task is to: put a clean spoon in drawer." in system) == (2, True)
    for text in ("", "[[example]]\nplan = 'x'", "[[example]]\nplan = 'x'\ntranscript = 'y'\nhint = 'z'", "example = 3"):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(ConfigError, match="is no TOML file of tables"):
            make_reflection_settings(load_config(overrides=[f"memory.reflections.examples={tmp_path / 'bad.toml'}"]))
    with pytest.raises(ConfigError, match="cannot read absent"):
        resolve_protocol(load_config(overrides=["memory.reflections.examples=absent.toml"]))


def test_a_long_term_part_from_the_variant_itself_is_not_shown_in_a_stream():
    memory = memory_of("across-tasks", "hierarchical", size=1)
    for key in ("boil::1", "boil::2"):
        fail(memory, key)
        memory = hand_on(memory, "across-tasks", "hierarchical", size=1)
    assert "Never do" in fail(memory, "boil::3")
    assert "Never do" not in fail(memory, "boil::1")


def test_failures_at_other_variants_widen_no_window_and_all_improvements_survive_a_restart():
    alone, passed = memory_of("adaptive", "across-tasks"), memory_of("adaptive", "across-tasks")
    for trial in range(1, 6):
        fail(passed, "melt::1", trial=trial)
    for memory in (alone, passed):
        for trial in range(1, 5):
            fail(memory, "boil::1", trial=trial)
    assert passed.preamble() == alone.preamble()
    memory = memory_of(*IMPROVEMENTS)
    for trial in range(1, 9):
        fail(memory, f"boil::{trial % 2}", trial=trial)
    again = restored(memory, *IMPROVEMENTS)
    for each in (memory, again):
        each.begin_trial(Variant("boil", 5), "Your task is to boil.")
    assert (again.preamble(), again.snapshot()) == (memory.preamble(), memory.snapshot())


def steps_of(actions: str, places: str = "", told: str = "You are in the {}.") -> list[Step]:
    shown = [told.format(place) for place in places.split()] or [""] * len(actions.split())
    return [
        Step(action, action, State("", look, ""), 0, 0, True)
        for action, look in zip(actions.split(), shown, strict=True)
    ]


@pytest.mark.parametrize(
    ("actions", "places", "repeated", "loop"),
    [
        ("a b b", "", True, False),
        ("a b c a b c a b c a", "", False, True),
        ("a b c a b c a b c", "", False, False),
        ("a b c d a b c d a b", "", False, False),
        ("a b c d e f g h", "x y x y x y x y", False, True),
        ("a b c d e f g h", "x y x y x y x z", False, False),
        ("a b c d e f g", "x y x y x y x", False, False),
    ],
)
@pytest.mark.parametrize("own", [{}, {"name_place": name_place}])
def test_exhaustion_is_a_repeated_action_or_a_semantic_loop(actions, places, repeated, loop, own):
    steps = steps_of(actions, places, "This room is called the {}." if own else "You are in the {}.")
    assert is_repeated(steps) == repeated
    assert bool(find_loop(steps, **own)) == loop
    assert (TrialRules(exhausted_by_repeat=True).find_ending(steps, None, 99) == "exhausted") == repeated
    assert (TrialRules(exhausted_by_loop=True).find_ending(steps, None, 99, **own) == "exhausted") == loop
    assert TrialRules().find_ending(steps, None, 99) is None
    assert bool(describe_loops(steps, **own)) == (repeated or loop)
    nothing = Step("", "", State("", "", ""), 0, 0, understood=False, malformed=True)
    assert not is_repeated([nothing, nothing]), "an unread answer repeats nothing"


def test_settings_that_no_improvement_reads_leave_the_identity_as_it_is():
    assert load_config().resolve_settings()["memory"]["reflections"] == {"size": 3, "improvements": []}
    assert load_config(overrides=["memory.reflections.retrieved=9"]).hash() == load_config().hash()
    improved = load_config(overrides=['memory.reflections.improvements=["novelty", "loops"]'])
    assert improved.resolve_settings()["memory"]["reflections"] == {
        "size": 3, "improvements": ["loops", "novelty"], "novelty_threshold": 0.85,
    }  # fmt: skip
    assert resolve_protocol(improved).id == "adapt/4 reflections.improvements=loops,novelty"
    assert make_reflection_settings(improved).has("loops")
    ended = load_config(overrides=["protocol.exhausted_by_loop=true"])
    assert resolve_protocol(ended).id == "adapt/4 exhausted_by_loop=True"
    with pytest.raises(ConfigError, match=r"set memory\.reflections\.successes = true"):
        make_reflection_settings(load_config(overrides=["memory.reflections.outcome=solved"]))
    with pytest.raises(ConfigError, match="improvements"):
        load_config(overrides=['memory.reflections.improvements=["better"]'])


def test_reflections_of_a_run_are_read_by_a_later_one_and_never_by_their_own_variant(rsso):  # noqa: F811
    play = ("run", "--benchmark", "pddl", "--methods", "reflexion", "--tasks", "gripper", "--trials", "2")
    fast = ("--set", "embedder.model=lexical")
    assert rsso(*play, *fast, "--per-task", "3", "--out", "one")[0] == 0
    plans = {each.variant: len(each.memories["reflections"]["plans"]) for each in Store(Path("one")).units()}
    read = ("--set", 'memory.reflections.improvements=["retrieval"]', "--set", "memory.reflections.index=one")
    code, _, err = rsso(*play, *fast, *read, "--per-task", "1", "--out", "two")
    assert code == 0, err
    (unit,) = Store(Path("two")).units()
    others = sum(held for variant, held in plans.items() if variant != unit.variant)
    shown = unit.trials[0].shown["plans_from_past_attempts"]
    assert shown.count("at another task (gripper)") == others > 0, "the other variants', and not its own"
    assert unit.stream is None
    again = ("run", *play[1:], *fast, *read, "--per-task", "1", "--out", "two", "--dry-run")
    assert rsso(*again)[0] == 0, "a run is bound to what the index holds"
    next(Path("one").glob("units/*/*/*.jsonl")).unlink()
    code, _, err = rsso(*again)
    assert (code, "memory.reflections.index: there " in err) == (1, True) or code == 2, err
    code, _, err = rsso(
        *play, *fast, *read, "--set", "memory.reflections.outcome=solved", "--per-task", "1", "--out", "four"
    )
    assert (code, "one has none of a solved trial; drop it" in " ".join(err.split())) == (2, True), err
    code, _, err = rsso(*play, *fast, *read[:3], "memory.reflections.index=three", "--out", "four")
    assert (code, "three is no folder of a run with finished units" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], None),
        (["benchmark=pddl"], None),
        (["memory.reflections.examples=none"], None),
        (["protocol.preset=omnireflect/3"], None),
        (["benchmark=toy"], "toy comes with no examples for the reflector, which is zero-shot"),
        (
            ['memory.reflections.improvements=["structured"]'],
            "the reflector is zero-shot: its examples lack what structured asks for",
        ),
    ],
)
def test_a_plan_says_where_a_reflector_lacks_the_examples_of_its_preset(settings, said, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(installed(tmp_path))
    get_benchmark.cache_clear()
    notes = []
    config = load_config(overrides=settings)
    plan_held_out(config, ["reflexion"], [config.active_benchmark.tasks.names()[0]], per_task=1, say=notes.append)
    assert [note for note in notes if "reflector" in note] == ([said] if said else [])


def test_the_reflector_is_shown_two_examples_of_its_benchmark_by_default(live):
    lm, reflector = walks(live)[0], Engine(lambda _: says(mistakes="It walked.", plan="Sit."))
    settings = make_reflection_settings(load_config())
    with acting(
        live, lambda role, *rest: lm(role, *rest) if role == "actor" else model(reflector), reflections=settings
    ):
        Agent("reflexion")(variant=REWARDED, trials=2)
    system = reflector.prompts[0].partition("<user>")[0]
    assert system.count("\nExample ") == 2
    for example in settings.own_examples:
        assert example["plan"] in system


def test_the_actor_reads_the_plan_alone(live):
    lm, reflector = walks(live)[0], Engine(lambda _: says(mistakes="It walked about.", plan="Sit."))
    with acting(live, lambda role, *rest: lm(role, *rest) if role == "actor" else model(reflector)):
        result = Agent("reflexion")(variant=REWARDED, trials=2)
    assert result.trials[1].shown["plans_from_past_attempts"] == "Attempt 1 at this task: Sit."


@pytest.mark.parametrize("interface", ["sso", "complete"])
def test_the_reflectors_transcript_shows_what_was_in_sight(live, interface):
    """rSSO 2.3: it reads the whole trajectory, so also what a room held: `complete` says it as it was listed, `sso` in
    lower case, a line where it is new."""
    lm, reflector = walks(live)[0], Engine(lambda _: says(mistakes="It walked.", plan="Sit."))
    models = lambda role, *rest: lm(role, *rest) if role == "actor" else model(reflector)  # noqa: E731
    with acting(live, models, rules=TrialRules(2, interface=interface)):
        result = Agent("reflexion")(variant=REWARDED)
    first = result.trials[0].trajectory
    moved = next(step for step in first.steps if step.action.startswith("teleport"))
    things = [line.strip().lower().rstrip(".") for line in moved.state.look.splitlines() if line.startswith("\t")]
    transcript = reflector.prompts[0].rpartition("Transcript")[2].lower()
    assert len(things) > 3
    assert all(thing in transcript for thing in things)
