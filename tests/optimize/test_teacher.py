"""Who may teach what, what becomes a demonstration, and what is kept of a teacher's play."""

from dataclasses import replace

import pytest

from rsso_dspy.config import BackendConfig
from rsso_dspy.environments.benchmark import get_benchmark
from rsso_dspy.environments.scienceworld.tasks import held_out, train_sample
from rsso_dspy.errors import GoldUnknown, SplitError, UnknownName, UsageError
from rsso_dspy.optimize import teacher as teachers
from rsso_dspy.optimize.calibration import Calibration
from rsso_dspy.optimize.compile import build_request, compile_agent
from rsso_dspy.optimize.optimizers import SHOWN, Lesson, choose_lessons, list_lessons
from rsso_dspy.optimize.rollouts import Rollouts
from rsso_dspy.optimize.teacher import Teacher, choose_teacher
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import METHODS
from tests import toy_package
from tests.optimize.scripted import LONGEST, SHORTEST, Models, actor, wanted
from tests.optimize.test_compile import CutShort
from tests.provider_runs import KEY, VARIABLE, look, table
from tests.provider_server import provider

DEV = get_benchmark().tasks.parse("lifespan-longest-lived::62")
TEST = held_out("lifespan-longest-lived", "sso", 1)[0]
UP = toy_package.BENCHMARK.tasks.parse
FIND = train_sample("find-plant", 1)
ALONE = "training variants alone"
BOOTSTRAP = wanted("bootstrap", FIND, SHORTEST[:1], 1, steps=1, trials=2)


@pytest.mark.parametrize(
    ("of", "variant", "error", "said"),
    [
        (get_benchmark(), replace(TEST, split="train"), SplitError, ALONE),
        (get_benchmark(), DEV, SplitError, ALONE),
        (toy_package.BENCHMARK, UP("up::9"), SplitError, ALONE),
        (toy_package.WITHOUT_GOLD, UP("up::0"), UsageError, "goldless has no gold paths to teach from: name a backend"),
    ],
    ids=["held out under another name", "development", "of another benchmark", "without gold paths"],
)
def test_gold_is_told_of_training_variants_alone(of, variant, error, said):
    with pytest.raises(error, match=said):
        of.find_gold_path(variant)


def test_what_a_teacher_cannot_do_is_refused_before_anything_is_played(live):
    for optimizer, train, error, says in (
        ("gepa", LONGEST[:1], UsageError, "gepa has no use for a teacher.*leave out --teacher"),
        ("bootstrap", (DEV,), SplitError, "lifespan-longest-lived::62 .dev."),
    ):
        calibration = Calibration(train, LONGEST[1:2])
        with pytest.raises(error, match=says):
            build_request(METHODS["react"], live.protocol, calibration, optimizer, teacher=Teacher("gold"))
    with pytest.raises(UnknownName, match="unknown backend 'golden'"):
        choose_teacher("golden", live.config)


@pytest.mark.parametrize(("method", "interface"), [("react", "sso"), ("rsso", "complete")])
def test_gold_walks_a_path_through_the_whole_agent(live, method, interface):
    rules = replace(live.runtime.rules, interface=interface)
    within = replace(live, runtime=replace(live.runtime, rules=rules, lm=Models()))
    rollouts = Rollouts(within, replace(BOOTSTRAP, teacher=Teacher("gold")))
    rollout = rollouts.play(Agent(method), FIND[0])
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
        Rollouts(student, replace(BOOTSTRAP, teacher=teacher)).play(Agent("react"), FIND[0])
    assert [body["temperature"] for body in served.requests] == [first, later]


def test_a_cut_short_compile_keeps_what_the_teacher_played(live, tmp_path, monkeypatch):
    out, asked = tmp_path / "program.json", []
    request = replace(wanted("bootstrap", FIND, SHORTEST[:1], steps=4), teacher=Teacher("gold"))
    find = teachers.play_gold
    monkeypatch.setattr(teachers, "play_gold", lambda *given: asked.append(given[1]) or find(*given))
    within = Models(actor=actor(lambda _: False)).within(live)
    with pytest.raises(KeyboardInterrupt):
        compile_agent(Agent("react"), within, request, events=CutShort(2), out=out)
    compiled = compile_agent(Agent("react"), within, request, out=out)
    assert asked == list(FIND)
    assert (compiled.teacher, len(compiled.tried), compiled.rollouts) == ("gold", 2, 2), "what gold plays is no rollout"


def test_a_variant_without_a_known_solution_teaches_nothing_and_a_note_says_so(live, monkeypatch):
    def refuse(variant, *_):
        raise GoldUnknown(f"no solution of {variant.key} is known")

    unknown = property(lambda _: replace(get_benchmark(), gold_path=refuse))
    monkeypatch.setattr(Calibration, "played_benchmark", unknown)
    request = replace(wanted("bootstrap", FIND, SHORTEST[:1], steps=4), teacher=Teacher("gold"))
    compiled = compile_agent(Agent("react"), Models(actor=actor(lambda _: False)).within(live), request)
    assert [note for note in compiled.notes if f"nothing is shown of {FIND[0].key}" in note]
    assert (compiled.confirmation.verdict, len(compiled.tried)) == ("not better", 1)


# Sets of demonstrations

LESSONS = [
    Lesson("actor", task, number == 0, {"task": task, "observation": f"{number}" * 360}, {"action": f"go {number}"})
    for task in ("boil", "melt", "grow")
    for number in range(4)
]


@pytest.mark.parametrize("tokens", [50, 400, 1000])
def test_a_set_keeps_to_its_tokens_and_is_spread_over_task_types(tokens):
    chosen = choose_lessons(LESSONS, tokens, "0 0").get("actor", [])
    assert sum(lesson.tokens for lesson in chosen) <= tokens
    counts = [sum(lesson.task == task for lesson in chosen) for task in ("boil", "melt", "grow")]
    assert max(counts) - min(counts) <= 1
    assert sum(counts) >= tokens // 120
    assert all(lesson.earns for lesson in chosen[:3]), "what earned points comes first"
    assert choose_lessons(LESSONS, tokens, "0 0") == ({"actor": chosen} if chosen else {})
    assert tokens <= 120 or chosen != choose_lessons(LESSONS, tokens, "0 1")["actor"]
