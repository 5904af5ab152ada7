"""In a compile too an answer that cannot be read is a score, until none of the first twenty can be read."""

import pytest

from rsso_dspy.errors import UnreadableAnswers
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.program_file import load
from rsso_dspy.programs.agent import Agent
from tests.optimize.scripted import LONGEST, SHORTEST, STEPS, Models, actor, rollouts_of, wanted

CHAT = "I would rather chat."
VAL = (*LONGEST[1:], *SHORTEST)
ASKED_TWICE = 2


def test_a_rollout_of_unreadable_answers_is_a_score(live):
    rollouts = rollouts_of(Models(actor=lambda _: CHAT).within(live))

    rollout = rollouts.play(Agent("react"), LONGEST[0])

    assert (rollout.accumulator, rollouts.ended_by) == (0, None)
    assert all(step.malformed for step in rollout.trials[0].trajectory.steps)


def test_a_compile_ends_at_the_twentieth_answer_if_none_could_be_read_and_scores_nothing(live, tmp_path):
    models, out = Models(actor=lambda _: CHAT), tmp_path / "compiled.json"
    request = wanted("none", train=LONGEST[:1], val=VAL)

    with pytest.raises(UnreadableAnswers, match=r"none of the first 20 answers.*the compile ends.*rather chat"):
        compile_agent(Agent("react"), models.within(live), request, out=out)

    assert models.asked["actor"] == 20
    compiled = load(out)
    assert (compiled.ended_by, compiled.before, compiled.tried) == ("error", None, ())


def test_the_same_command_plays_anew_what_could_not_be_read(live, tmp_path):
    request, out = wanted("none", train=LONGEST[:1], val=VAL), tmp_path / "compiled.json"
    with pytest.raises(UnreadableAnswers):
        compile_agent(Agent("react"), Models(actor=lambda _: CHAT).within(live), request, out=out)
    models = Models(actor=actor(lambda _: True))

    compiled = compile_agent(Agent("react"), models.within(live), request, out=out)

    assert models.asked["actor"] == STEPS * len(VAL)
    assert (compiled.ended_by, compiled.before.mean) == (None, 50)
    assert compiled.abandoned["actor"].calls == 20, "the bill keeps what was paid for"


def test_rollouts_of_an_earlier_attempt_count_among_the_first_answers(live, tmp_path):
    """What a killed compile had heard is heard first."""
    few = ASKED_TWICE * STEPS * 2
    request, out, heard = wanted("none", train=LONGEST[:1], val=VAL), tmp_path / "compiled.json", 0

    def answer_until_killed(_prompt):
        nonlocal heard
        heard += 1
        if heard > few:
            raise KeyboardInterrupt
        return CHAT

    with pytest.raises(KeyboardInterrupt):
        compile_agent(Agent("react"), Models(actor=answer_until_killed).within(live), request, out=out)
    models = Models(actor=lambda _: CHAT)
    with pytest.raises(UnreadableAnswers):
        compile_agent(Agent("react"), models.within(live), request, out=out)
    assert models.asked["actor"] == 20 - few
