"""A rollout is played once, whoever asks and however often, and not at all when nothing is left to spend."""

import pickle
import threading

import dspy
import pytest
from dspy.utils.parallelizer import ParallelExecutor

from rsso_dspy.optimize.calibration import build_examples
from rsso_dspy.optimize.feedback import metric
from rsso_dspy.optimize.optimizers import Search, Student
from rsso_dspy.optimize.rollouts import CompileStopped, RolloutLogs, Rollouts
from rsso_dspy.optimize.verdict import CandidateProgram, Rollout
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.state import fingerprint_program
from tests.live import says
from tests.optimize.scripted import GO, LONGEST, STEPS, Models, actor, rollouts_of, wanted

FIRST = LONGEST[0]


@pytest.fixture
def models():
    return Models(actor=actor(lambda _: True))


def reworded(words: str) -> Agent:
    agent = Agent("react")
    agent.actor.signature = agent.actor.signature.with_instructions(words)
    return agent


def make_student(rollouts, agent, kind=Student):
    return kind(Search(agent, rollouts), lambda rollout: list(rollout.calls))


def test_a_rollout_is_recalled_for_equal_programs_and_played_for_others(live, models):
    rollouts = rollouts_of(models.within(live))
    first = rollouts.play(Agent("react"), FIRST)
    assert rollouts.play(Agent("react").deepcopy(), FIRST) is first
    assert models.asked["actor"] == STEPS
    assert rollouts.play(reworded("Play."), FIRST) is not first
    assert rollouts.play(Agent("react"), LONGEST[1]) is not first
    assert rollouts.spent == 3
    assert [told for _, told in rollouts.events.told].count(first) == 1
    assert (first.score, first.accumulator, first.variant) == (0.5, 50, FIRST)
    assert rollouts.usage["actor"].calls == 3 * STEPS


def test_copies_of_a_student_share_its_rollouts_and_leave_their_own_calls_in_the_trace(live, models):
    student = make_student(rollouts_of(models.within(live)), reworded("Play."))
    assert fingerprint_program(student) == fingerprint_program(reworded("Play."))
    for each in (student, student.deepcopy(), student.reset_copy()):
        with dspy.context(trace=[]):
            played = each(variant=FIRST.key)
            trace = dspy.settings.trace
        assert [said.action for _, _, said in trace] == [GO, "look around"]
        assert all(predictor is each.actor for predictor, _, _ in trace)
        trace[0][1].clear()  # what one reader does to its inputs is not seen by the next
        assert metric(None, played) == 0.5
        assert {goal.done for goal in played.progress[0]} == {True, False}
    assert models.asked["actor"] == STEPS


def test_calls_are_pickled_alike_whether_their_rollout_was_played_or_read(live, models, tmp_path):
    """DSPy seeds its choice of demonstrations with the pickle."""
    pickled, request = set(), wanted(train=LONGEST[1:], val=LONGEST[:1])
    for _ in range(2):
        logs = RolloutLogs(tmp_path / "program.json")
        with logs.open_for_request({"identity": {}}), dspy.context(trace=[]):
            make_student(Rollouts(models.within(live), request, logs=logs), Agent("react"))(variant=FIRST.key)
            pickled.add(pickle.dumps([(given, said.toDict()) for _, given, said in dspy.settings.trace]))
    assert (len(pickled), models.asked["actor"]) == (1, STEPS)


def test_a_rollout_that_dspy_asks_for_again_because_it_is_slow_is_not_played_again(live, monkeypatch):
    again, asked = threading.Event(), []

    class Slow(Student):
        def forward(self, variant):
            asked.append(variant)
            if len(asked) == 2:
                again.set()
            return super().forward(variant)

    goes = actor(lambda _: True)

    def answer(prompt):
        assert again.wait(60), "DSPy never asked again"
        return goes(prompt)

    made = ParallelExecutor.__init__
    monkeypatch.setattr(ParallelExecutor, "__init__", lambda self, **given: made(self, **given, timeout=0.01))
    models = Models(actor=answer)
    rollouts = rollouts_of(models.within(live))
    evaluate = dspy.Evaluate(devset=build_examples([FIRST]), metric=metric, num_threads=2, display_progress=False)
    assert evaluate(make_student(rollouts, Agent("react"), Slow)).score == 50
    assert len(asked) >= 2, "once more each second, while it goes on"
    assert (set(asked), models.asked["actor"], rollouts.spent) == ({FIRST.key}, STEPS, 1)


# Ends


def test_after_the_last_rollout_of_the_budget_none_begins_and_what_is_known_costs_nothing(live, models):
    rollouts = rollouts_of(models.within(live), limit=1)
    rollout = rollouts.play(Agent("react"), FIRST)
    with pytest.raises(CompileStopped):
        rollouts.play(Agent("react"), LONGEST[1])
    assert rollouts.ended_by == "rollouts"
    assert rollouts.play(Agent("react"), FIRST) is rollout
    assert models.asked["actor"] == STEPS
    for why in ("interrupted", "cost"):  # while the last ones are played
        rollouts.stop_compile(why)
    assert rollouts.ended_by == "interrupted"


def test_a_rollout_under_way_stops_before_its_next_step_and_has_no_score(live):
    def answer(_):
        rollouts.stop_compile("interrupted")
        return says(thought="t", action=GO)

    models = Models(actor=answer)
    rollouts = rollouts_of(models.within(live))
    for _ in range(2):
        with pytest.raises(CompileStopped):
            rollouts.play(Agent("react"), FIRST)
    assert (models.asked["actor"], rollouts.spent, rollouts.best_candidate) == (1, 1, None)


@pytest.mark.parametrize(("score", "better"), [(0.5004, False), (0.502, True)])
def test_a_candidate_that_is_better_by_less_than_a_tenth_of_a_point_is_not_better(live, score, better):
    rollouts = rollouts_of(live)
    for name, reached in (("first", 0.5), ("second", score)):
        rollouts.candidates[name] = CandidateProgram(name, {}, {FIRST: {0: Rollout(FIRST, reached, (), (), ())}})
    assert rollouts.best_candidate is rollouts.candidates["second" if better else "first"]
