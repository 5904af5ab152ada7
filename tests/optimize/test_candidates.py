"""What a compile keeps and says of its candidates, whatever its verdict."""

from collections.abc import Mapping

import pytest

from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.optimizers import read_candidates
from rsso_dspy.optimize.program_file import RoleChange, count_differences, list_changes, load
from rsso_dspy.optimize.rollouts import Rollouts, select_kept_candidate
from rsso_dspy.optimize.verdict import CandidateProgram, Rollout, explain_drop
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Variant
from tests.optimize.scripted import (
    ADVICE,
    GO,
    LONGEST,
    SHORTEST,
    CutShort,
    Models,
    actor,
    advised,
    asks_for,
    proposer,
    shown,
    wanted,
)

TRAIN, VAL = LONGEST[:2], SHORTEST[:4]


def make_candidate(number: int, scores: Mapping[Variant, float], **more: object) -> CandidateProgram:
    played = {variant: {0: Rollout(variant, score, (), (), ())} for variant, score in scores.items()}
    return CandidateProgram(f"program {number}", {}, played, number, **more)


def score_val(*scores: float) -> dict[Variant, float]:
    return dict(zip(VAL, scores, strict=False))


START = {**score_val(0.5, 0.5, 0.5, 0.5), **dict.fromkeys(TRAIN, 0.5)}


@pytest.mark.parametrize(
    ("played", "kept"),
    [
        pytest.param([score_val(0, 0, 0, 0.4), score_val(0, 0, 0, 0.8)], 2, id="the highest mean on val"),
        pytest.param([score_val(0, 0, 0, 0.4), score_val(0, 0, 0, 0.4004)], 1, id="the earliest of equals"),
        pytest.param([score_val(1, 1, 1), score_val(0, 0, 0, 0)], 2, id="played on all of val before dropped ones"),
        pytest.param([score_val(0.4), score_val(0, 0)], 2, id="the one that was dropped last"),
        pytest.param([score_val(0.1, 0.2), score_val(0.2, 0.3)], 2, id="of these the better one"),
        pytest.param([{TRAIN[0]: 0.9}, score_val(0)], 2, id="val before train"),
        pytest.param([{TRAIN[0]: 0.4}, {TRAIN[0]: 0.6}], 2, id="the better one on train"),
        pytest.param([{}, {}], None, id="none was played"),
        pytest.param([], None, id="none was proposed"),
    ],
)
def test_the_kept_candidate_is_the_best_on_val_else_the_one_that_got_furthest(live, played, kept):
    rollouts = Rollouts(live, wanted(train=TRAIN, val=VAL))
    for number, scores in enumerate([START, *played]):
        rollouts.candidates[str(number)] = make_candidate(number, scores)
    candidate = select_kept_candidate(rollouts)
    assert (candidate and candidate.number) == kept


def test_a_placebo_is_never_kept(live):
    rollouts = Rollouts(live, wanted(train=TRAIN, val=VAL))
    rollouts.candidates = {
        "start": make_candidate(0, START),
        "placebo": make_candidate(1, score_val(1, 1, 1, 1), placebo=True),
    }
    assert select_kept_candidate(rollouts) is None


def test_a_drop_is_explained_by_how_far_behind_the_candidate_was():
    """After two of four variants at 0.5 below; then two variants on which the best one is nearly perfect."""
    best, low = make_candidate(3, score_val(0.6, 0.6, 0.1, 0.1)), make_candidate(4, score_val(0.1, 0.1))
    assert explain_drop(low, best, VAL[:2], VAL[2:]) == (
        "-50.0 points a variant from candidate 3 on 2 of 4 val variants: it would catch up in fewer than 10% of cases"
    )
    high = make_candidate(3, score_val(0.6, 0.6, 0.9, 0.9))
    assert explain_drop(low, high, VAL[:2], VAL[2:]).endswith(": solving all the others would not catch up")


# Changes


def test_changes_are_the_sentences_lines_and_demonstrations_beside_the_zero_shot_program():
    agent = Agent("react")
    zero_shot = agent.dump_state()
    instruction = agent.actor.signature.instructions
    first = instruction.split(".")[0]
    agent.actor.signature = agent.actor.signature.with_instructions(f"{instruction.replace(first, 'Play')}\n- Go.")
    agent.actor.demos = [{"task": "Find a plant.", "action": GO}]
    (change,) = list_changes(zero_shot, agent.dump_state())
    assert (change.role, change.added, len(change.removed)) == ("actor", ("Play.", "- Go."), 1)
    (shown_one,) = change.demonstrations
    assert shown_one.partition(" ")[2] == f"Find a plant. {GO}"
    assert change.counts == "+2 -1 1 shown"
    assert list(list_changes(zero_shot, zero_shot)) == []


@pytest.mark.parametrize(
    ("other", "apart"),
    [
        ([], 2),
        ([RoleChange("actor", ("Go.", "Look."))], 0),
        ([RoleChange("actor", ("Look.", "Go."))], 0),
        ([RoleChange("actor", ("Go.", "Wait."))], 2),
        ([RoleChange("reflector", ("Go.", "Look."))], 4),
    ],
)
def test_two_programs_are_apart_by_the_lines_that_only_one_of_them_changes(other, apart):
    assert count_differences([RoleChange("actor", ("Go.", "Look."))], other) == apart


# Of whole compiles


def test_a_search_that_rejects_every_proposal_on_train_keeps_one_and_lists_all(live, tmp_path):
    """No proposal changes what the actor does, so gepa takes none of them to val; the file says so of each."""
    models = Models(actor=actor(lambda _: False), proposer=proposer(["Be polite.", "Be kind.", "Be polite. Be kind."]))
    request = wanted(train=TRAIN, val=VAL[:1], rollouts=12, placebos=1)
    compiled = compile_agent(Agent("react"), models.within(live), request, out=tmp_path / "compiled.json")
    assert compiled.confirmation.verdict == "not better"
    start, placebo, *proposed = compiled.tried
    assert [each.number for each in compiled.tried] == list(range(len(compiled.tried)))
    assert [each.origin for each in (start, placebo, *proposed[:2])] == ["start", "placebo", "proposed", "proposed"]
    assert compiled.compared == (start, placebo)
    assert [(each.val_played, each.scores, each.nearest is None) for each in proposed] == [(0, None, False)] * len(
        proposed
    )
    assert proposed[0].left == "gepa went on without it after 2 of 2 train variants: metric 0.0 there, 0.0 of 0"
    assert [change.added for each in proposed[:2] for change in each.changes] == [("Be polite.",), ("Be kind.",)]
    kept = load(tmp_path / "compiled.json").select_candidate()
    assert kept.program == proposed[0].program
    assert kept.agent().actor.signature.instructions.endswith("Be polite.")


def test_a_race_says_of_a_dropped_candidate_where_and_why_and_of_a_finished_one_nothing(live, tmp_path):
    """The program as it is goes outside; the first wording keeps it from that, the second changes nothing."""
    file = tmp_path / "own.toml"
    file.write_text('actor = ["Stay where you are.", "Be polite."]')

    def goes(prompt):
        return "Stay where you are." not in prompt.partition("<user>")[0]

    request = wanted(read_candidates(file, Agent("react")), TRAIN, VAL, rollouts=16)
    compiled = compile_agent(Agent("react"), Models(actor=actor(goes)).within(live), request)
    start, harm, polite = compiled.tried
    assert (harm.origin, harm.dropped, harm.val_played, harm.scores.metric) == ("hand-written", True, 2, 0.0)
    assert harm.left.startswith("-50.0 points a variant from candidate 0 on 2 of 4 val variants: solving all")
    assert (polite.dropped, polite.val_played, polite.left, polite.scores) == (False, 4, "", start.scores)
    assert compiled.candidate.program == polite.program
    assert compiled.after == compiled.before


def test_the_demonstrations_of_a_bootstrapped_candidate_are_among_its_changes(live):
    goes = actor(lambda prompt: asks_for("longest")(prompt) or shown(prompt))
    compiled = compile_agent(Agent("react"), Models(actor=goes).within(live), wanted("bootstrap", TRAIN, VAL[:1]))
    start, taught = compiled.tried
    assert (start.changes, taught.origin) == ((), "bootstrapped")
    (change,) = taught.changes
    assert (change.added, all(GO in text for text in change.demonstrations)) == ((), True)
    assert (taught.nearest, taught.apart) == (0, len(change.demonstrations))


def test_a_compile_that_is_interrupted_keeps_the_candidate_that_it_was_at(live, tmp_path):
    models, out = Models(actor=actor(advised), proposer=proposer([ADVICE])), tmp_path / "cut.json"
    with pytest.raises(KeyboardInterrupt):
        compile_agent(Agent("react"), models.within(live), wanted(train=TRAIN), out=out, events=CutShort(4))
    there = load(out)
    assert [(each.number, each.val_played) for each in there.tried] == [(0, 1), (1, 0)]
    assert there.tried[1].left == "the compile ended first"
    assert there.candidate.program == there.tried[1].program
