"""The PDDL games: what they say, what counts, and that their problems can be solved."""

import pytest

from rsso_dspy.environments.pddl import BENCHMARK
from rsso_dspy.environments.pddl.environment import NOT_AN_ACTION, NOT_POSSIBLE, Game, PddlEnvironment
from rsso_dspy.environments.pddl.strips import read_setup
from rsso_dspy.environments.pddl.tasks import _list_rows, find_solution, load_domain, load_setup
from rsso_dspy.errors import SplitError
from rsso_dspy.records import Lesson, Step
from rsso_dspy.signatures.constitution import WriteRules
from scripts.make_pddl import find_worded_plan, make_text

DOMAINS = BENCHMARK.tasks.names()
GRIPPER = """(define (problem two) (:domain gripper)
 (:objects rooma roomb ball1 ball2 left right)
 (:init (room rooma) (room roomb) (ball ball1) (ball ball2) (gripper left) (gripper right)
        (free left) (free right) (at-robby rooma) (at ball1 rooma) (at ball2 roomb))
 (:goal (and (at ball1 roomb) (at ball2 roomb))))"""
BLOCKS = """(define (problem towers) (:domain blockworld) (:objects b1 b2 b3)
 (:init (arm-empty) (on b2 b1) (on-table b1) (on-table b3) (clear b2) (clear b3))
 (:goal (and (on b3 b2) (on b1 b3))))"""
BARMAN = """(define (problem bar) (:domain barman)
 (:objects shaker1 - shaker left right - hand shot1 shot2 - shot gin lime - ingredient cocktail1 - cocktail
           tap1 tap2 - dispenser l0 l1 l2 - level)
 (:init (ontable shaker1) (ontable shot1) (ontable shot2) (clean shaker1) (clean shot1) (clean shot2) (empty shaker1)
        (empty shot1) (empty shot2) (dispenses tap1 gin) (dispenses tap2 lime) (handempty left) (handempty right)
        (shaker-level shaker1 l0) (shaker-empty-level shaker1 l0) (next l0 l1) (next l1 l2)
        (cocktail-part1 cocktail1 gin) (cocktail-part2 cocktail1 lime))
 (:goal (contains shot1 cocktail1)))"""
TYRE = """(define (problem tyre) (:domain tyreworld) (:objects wrench jack pump - tool hub1 - hub nut1 - nut
           boot - container spare flat - wheel)
 (:init (unlocked boot) (closed boot) (in wrench boot) (in jack boot) (in pump boot) (in spare boot) (intact spare)
        (not-inflated spare) (on flat hub1) (on-ground hub1) (fastened hub1) (tight nut1 hub1))
 (:goal (and (on spare hub1) (in flat boot))))"""
BOTH = GRIPPER.replace("(at ball2 roomb))\n (:goal", "(at ball2 rooma))\n (:goal")
SERVED = """left grasp shot1
fill-shot shot1 gin left right tap1
pour-shot-to-clean-shaker shot1 gin shaker1 left l0 l1
clean-shot shot1 gin left right
fill-shot shot1 lime left right tap2
pour-shot-to-used-shaker shot1 lime shaker1 left l1 l2
left leave shot1
left grasp shaker1
shake cocktail1 gin lime shaker1 left right
pour-shaker-to-shot cocktail1 shot2 left shaker1 l2 l1""".splitlines()
TEXTS = {"gripper": GRIPPER, "blockworld": BLOCKS, "barman": BARMAN, "tyreworld": TYRE}


def start_game(domain: str) -> Game:
    rules = load_domain(domain)
    return Game(rules, read_setup(TEXTS[domain], rules, "here"))


@pytest.mark.parametrize(
    ("domain", "before", "text", "says"),
    [
        ("gripper", [], "Move from rooma to roomb. ", "Robby is at roomb. "),
        ("gripper", [], "pick(ball1, rooma, right)", "Ball1 is carrying right. "),
        ("gripper", [], "move rooma roomb ball1", "Robby is at roomb. "),
        ("gripper", [], "move rooma rooma", NOT_POSSIBLE),
        ("gripper", [], "pick ball1 rooma", NOT_AN_ACTION),
        ("gripper", [], "look around", "Room rooma Room roomb"),
        ("gripper", [], "please CHECK", "Valid actions are: Move from rooma to roomb. , Pick up ball1 at rooma"),
        ("blockworld", [], "pick up b3", NOT_AN_ACTION),
        ("blockworld", [], "pickup b1", NOT_POSSIBLE),
        ("blockworld", [], "Unstack b2 from b1.", "You are holding b2. "),
        ("barman", [], "left grasp shot1 and right grasp shot2", "You are holding left. "),
        ("barman", ["left grasp shot1"], "fill-shot glass shot1 with gin with left and right holding tap1.", "Pour "
         "shot1 from a shot glass to a used shaker gin Shot1 contains gin. "),
        ("barman", ["left grasp shaker1"], "use hand left and hand right to clean-shaker shaker1", NOT_POSSIBLE),
        ("tyreworld", [], "open the boot and fetch wrench", "Boot is open."),
        ("tyreworld", ["open boot"], "jack up hub1", NOT_AN_ACTION),
        ("tyreworld", ["open boot", "fetch jack boot"], "jack-up hub1", "Hub hub1 is not on the ground."),
    ],
)  # fmt: skip
def test_texts_are_read_and_answered(domain, before, text, says):
    game = start_game(domain)
    for each in before:
        assert game.step(each)[1]
    observation, valid = game.step(text)
    assert says in observation
    assert valid == (says not in (NOT_AN_ACTION, NOT_POSSIBLE))
    if domain in ("barman", "tyreworld") and valid:
        assert observation == says, "only what became true is said"


def test_what_holds_at_the_start_counts_from_the_first_change_on():
    game = start_game("gripper")
    assert (game.progress, game.step("check")[1], game.progress) == (0, True, 0)
    game.step("pick ball1 rooma left")
    assert game.progress == 0.5
    for text in ("move rooma roomb", "pick ball2 roomb right", "nonsense"):
        game.step(text)
    assert game.progress == 0.5, "it never falls"
    game.step("drop ball1 roomb left")
    assert not game.is_won
    assert game.step("drop ball2 roomb right")[0].endswith(" The goal is satisfied.")
    assert (game.is_won, game.progress) == (True, 1)


@pytest.mark.parametrize("domain", DOMAINS)
def test_problems_are_solved_by_the_plans_that_grade_them(domain):
    variants = [BENCHMARK.tasks.variant(domain, index) for index in range(70)]
    problems = [load_setup(variant) for variant in variants]
    assert len({(each.start, frozenset(each.goal)) for each in problems}) == len(problems), "no two are the same"
    lengths = [BENCHMARK.budget.gold_length(variant) for variant in variants]
    assert lengths[:40] == sorted(lengths[:40])
    assert lengths[50:70] == sorted(lengths[50:70])
    for variant, problem in zip(variants, problems, strict=True):
        game = Game(load_domain(domain), problem)
        won = [(game.step(action)[1], game.is_won)[1] for action in find_solution(variant)]
        assert won == [False] * (len(won) - 1) + [True], variant


@pytest.mark.parametrize("domain", DOMAINS)
def test_shipped_problems_and_plans_are_what_their_script_makes(domain):
    for index in (1, 41, 55):
        text, plan = _list_rows(domain)[index]
        number = int(text.partition(")")[0].rpartition("-")[2])
        assert (text, plan) == (make_text(domain, number), tuple(find_worded_plan(domain, text)))


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_plan_in_the_words_that_are_offered_earns_all_points(domain):
    env = PddlEnvironment()
    variant = BENCHMARK.tasks.train_sample(domain, 3)[2]
    env.reset(variant)
    assert env.action_templates not in BENCHMARK.action_templates.values()
    assert not all(goal.done for goal in env.goal_progress())
    steps = [(action in env.admissible_actions(), env.step(action)) for action in find_solution(variant)]
    assert all(offered and went.understood for offered, went in steps)
    assert (went := steps[-1][1]).done
    assert (went.score, sum(went.reward for _, went in steps)) == (100, 100)
    assert all(goal.done for goal in env.goal_progress())
    env.reset(BENCHMARK.tasks.variant(domain, 50))
    with pytest.raises(SplitError, match=f"{domain}::50 is a test variant"):
        env.goal_progress()


@pytest.mark.parametrize(
    ("domain", "played", "category", "says"),
    [
        ("gripper", ["drop ball1 rooma left"], "error", "Asked for 'drop'"),
        ("gripper", ["fly"], "error", "names no action"),
        ("gripper", ["move rooma roomb", "pick ball2 roomb left"], "error", "Undid a condition"),
        ("gripper", ["pick ball1 rooma left", "drop ball1 rooma left"], "error", "where the goal does not want it"),
        ("gripper", ["move rooma roomb", "move roomb rooma"], "error", "a state that had been there"),
        ("gripper", ["move rooma roomb"], "progress", "Done: Ball2 is at roomb."),
        ("gripper", ["the task is completed"], "error", "Took the task for done"),
        ("gripper both", ["pick ball1 rooma left", "check", "move rooma roomb"], "error", "Left a room with one ball"),
        ("blockworld", ["pickup b1"], "error", "'pickup' while its conditions"),
        ("blockworld", ["unstack b2 b1", "putdown b2", "pickup b1", "stack b1 b3"], "error", "does not stand yet"),
        ("barman", SERVED, "error", "Served a drink that no condition"),
        ("tyreworld", ["open boot", "fetch pump boot"], "error", "Fetched pump, which nothing"),
        ("tyreworld", ["open boot", "fetch jack boot"], "error", None),
        ("tyreworld", ["open boot", "fetch spare boot"], "error", None),
        ("gripper", ["pick ball1 rooma left", "move rooma roomb"], "error", None),
        ("tyreworld", ["open boot", "fetch spare boot"], "progress", "yet: Flat is in boot. Spare is on hub1."),
    ],
)  # fmt: skip
def test_lessons_are_drawn_from_what_is_seen(monkeypatch, domain, played, category, says):
    text = BOTH if domain == "gripper both" else TEXTS[domain]
    domain = domain.partition(" ")[0]
    problem = read_setup(text, load_domain(domain), "here")
    monkeypatch.setattr("rsso_dspy.environments.pddl.environment.load_setup", lambda *_: problem)
    env = PddlEnvironment()
    states, steps = play(env, BENCHMARK.tasks.parse(f"{domain}::0"), played)
    drawn = env.lessons(states, steps)
    assert drawn == BENCHMARK.hints.lessons(env.task, states, steps)
    assert any(each.category == category and (says is None or says in each.text) for each in drawn) == bool(says), drawn
    assert all(isinstance(each, Lesson) for each in env.rules_of_thumb)


def test_progress_rules_affirm_what_is_done_and_say_what_is_left(monkeypatch):
    """OmniReflect, section 2.2.3: they affirm completed sub-tasks, which is no guidance, beside what to do next."""
    problem = read_setup(BOTH, load_domain("gripper"), "here")
    monkeypatch.setattr("rsso_dspy.environments.pddl.environment.load_setup", lambda *_: problem)
    env = PddlEnvironment()

    actions = ["pick ball1 rooma left", "move rooma roomb", "drop ball1 roomb left"]
    states, steps = play(env, BENCHMARK.tasks.parse("gripper::0"), actions)

    progress = [lesson.text for lesson in env.lessons(states, steps) if lesson.category == "progress"]
    assert progress == ["Done: Ball1 is at roomb.", "Not done yet: Ball2 is at roomb."]
    asked = WriteRules.output_fields["progress_rules"].json_schema_extra["desc"]
    assert asked == "what is done and what is left in this task", "a model that writes them is asked for the same"


def play(env, variant, actions):
    states, steps = [env.reset(variant)], []
    for action in actions:
        went = env.step(action)
        states.append(went.state)
        steps.append(Step(action, went.action, went.state, went.reward, went.score, went.understood))
    return states, steps
