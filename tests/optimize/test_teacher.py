"""Who may teach what, what becomes a demonstration, and what is kept of a teacher's play."""

from dataclasses import replace

import pytest

from rsso_dspy.config import BackendConfig
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.scienceworld.tasks import held_out, train_sample
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.optimize import teacher as teachers
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.optimizers import SHOWN, Lesson, choose_lessons, list_lessons
from rsso_dspy.optimize.request import build_request
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.teacher import Teacher, choose_teacher, open_lead
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import METHODS
from tests import toy_package
from tests.optimize.scripted import LONGEST, SHORTEST, Keep, Models, actor, wanted
from tests.optimize.test_resume import CutShort
from tests.provider_runs import KEY, VARIABLE, look, table
from tests.provider_server import provider

DEV = get_benchmark().tasks.parse("lifespan-longest-lived::62")
TEST = held_out("lifespan-longest-lived", "sso", 1)[0]
FIND = train_sample("find-plant", 1)


@pytest.mark.parametrize(
    "variant",
    [TEST, replace(TEST, split="train"), DEV, toy_package.BENCHMARK.tasks.parse("up::9")],
    ids=["held out", "held out under another name", "development", "of another benchmark"],
)
def test_gold_is_told_of_training_variants_alone(variant):
    of = toy_package.BENCHMARK if variant.task == "up" else get_benchmark()
    with pytest.raises(SplitError, match="training variants alone"):
        of.find_gold_path(variant)


def test_a_benchmark_without_gold_paths_says_what_works_instead():
    with pytest.raises(UsageError, match="goldless has no gold paths to teach from: name a backend as the teacher"):
        toy_package.WITHOUT_GOLD.find_gold_path(toy_package.BENCHMARK.tasks.parse("up::0"))


@pytest.mark.parametrize(
    ("optimizer", "train", "error", "says"),
    [
        ("gepa", LONGEST[:1], UsageError, "gepa has no use for a teacher.*leave out --teacher"),
        ("bootstrap", (DEV,), SplitError, "lifespan-longest-lived::62 .dev."),
    ],
)
def test_what_a_teacher_cannot_do_is_refused_before_anything_is_played(live, optimizer, train, error, says):
    calibration = Calibration(train, LONGEST[1:2])
    with pytest.raises(error, match=says):
        build_request(METHODS["react"], live.protocol, calibration, optimizer, teacher=Teacher("gold"))


def test_an_unknown_teacher_offers_the_backends(live):
    with pytest.raises(UnknownName, match="unknown backend 'golden'"):
        choose_teacher("golden", live.config)


@pytest.mark.parametrize(("method", "interface"), [("react", "sso"), ("rsso", "complete")])
def test_gold_walks_a_path_through_the_whole_agent(live, method, interface):
    agent, calibration = Agent(method), Calibration(FIND, SHORTEST[:1])
    rules = replace(live.runtime.rules, interface=interface)
    within = replace(live, runtime=replace(live.runtime, rules=rules, lm=Models()))
    lead = open_lead(Teacher("gold"), calibration, within)
    rollouts = Rollouts(within, wanted("bootstrap", FIND, SHORTEST[:1], 1, steps=3, trials=2), lead=lead)
    rollout = rollouts.play(agent, FIND[0])
    assert rollouts.taught == {FIND[0]: rollout}
    (trial,) = rollout.trials
    assert (trial.trajectory.solved, trial.usage, rollouts.lm_calls, rollouts.usage) == (True, {}, 0, {})
    lessons = list_lessons(rollout, ("actor",))
    assert lessons
    for lesson in lessons:
        assert lesson.said["action"] in {step.proposed for step in trial.trajectory.steps}
        assert lesson.given.keys() <= set(SHOWN)


@pytest.mark.parametrize(("first", "later"), [(0.0, 0.7), (0.25, 0.25)])
def test_a_teacher_retries_at_a_temperature_of_its_own_whatever_the_students_is(live, monkeypatch, first, later):
    monkeypatch.setenv(VARIABLE, KEY)
    with provider(look) as served:
        teacher = Teacher("mine", backend=BackendConfig(**table("openai", served, temperature=first)))
        student = replace(live, runtime=replace(live.runtime, lm=Models()))
        lead = open_lead(teacher, Calibration(FIND, SHORTEST[:1]), student)
        request = wanted("bootstrap", FIND, SHORTEST[:1], 1, steps=1, trials=2)
        Rollouts(student, request, lead=lead).play(Agent("react"), FIND[0])
    assert [body["temperature"] for body in served.requests] == [first, later]


def test_a_cut_short_compile_keeps_what_the_teacher_played(live, tmp_path, monkeypatch):
    out, asked = tmp_path / "program.json", []
    request = replace(wanted("bootstrap", FIND, SHORTEST[:1], steps=4), teacher=Teacher("gold"))
    find = teachers.play_gold
    monkeypatch.setattr(teachers, "play_gold", lambda *given: asked.append(given[1]) or find(*given))
    with pytest.raises(KeyboardInterrupt):
        compile_agent(Agent("react"), within(live), request, events=CutShort(2), out=out)
    assert asked == list(FIND)
    observed = Keep()
    compiled = compile_agent(Agent("react"), within(live), request, events=observed, out=out)
    assert (asked, observed.of.recalled) == (list(FIND), 2)
    assert compiled.teacher == "gold"
    assert len(compiled.tried) == 2
    assert compiled.rollouts == 2, "what gold plays is none"


def within(live):
    return Models(actor=actor(lambda _: False)).within(live)


# Sets of demonstrations


def make_lessons() -> list[Lesson]:
    return [
        Lesson("actor", task, number == 0, {"task": task, "observation": f"{number}" * 360}, {"action": f"go {number}"})
        for task in ("boil", "melt", "grow")
        for number in range(4)
    ]


@pytest.mark.parametrize("tokens", [120, 400, 1000])
def test_a_set_keeps_to_its_tokens_and_is_spread_over_task_types(tokens):
    chosen = choose_lessons(make_lessons(), tokens, "0 0")["actor"]
    assert sum(lesson.tokens for lesson in chosen) <= tokens
    counts = [sum(lesson.task == task for lesson in chosen) for task in ("boil", "melt", "grow")]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) >= tokens // 120
    assert all(lesson.earns for lesson in chosen[:3]), "what earned points comes first"
    assert chosen == choose_lessons(make_lessons(), tokens, "0 0")["actor"]
    assert tokens == 120 or chosen != choose_lessons(make_lessons(), tokens, "0 1")["actor"]


def test_nothing_that_is_too_long_is_shown():
    assert choose_lessons(make_lessons(), 50, "0 0") == {}
