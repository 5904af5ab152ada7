"""Every optimizer goes through the same acceptance: placebo, race on val, choice, confirmation, verdict.

Going outside is worth 50 points. The actor goes when it is asked for the longest life, and elsewhere when advice or a
demonstration tells it to."""

import pytest

from rsso_dspy.environments.scienceworld.tasks import train_sample
from rsso_dspy.optimize.compile import compile_agent
from rsso_dspy.optimize.optimizers import OPTIMIZERS
from rsso_dspy.programs.agent import Agent
from tests.optimize.scripted import ADVICE, LONGEST, Keep, Models, actor, advised, asks_for, proposer, shown, wanted

HARM = "Stay where you are."
SHORTEST = train_sample("lifespan-shortest-lived", 8)
TRAIN = (LONGEST[0], SHORTEST[0], train_sample("find-plant", 1)[0])
VAL = (LONGEST[2], SHORTEST[1])
HELPED = SHORTEST[2:]
"""Six confirm variants, on five of which advice is worth 50 points: the fewest that can confirm."""
ALIKE = LONGEST[3:4]
"""One on which it changes nothing."""

# Rollouts of the search, what the proposer adds, whether a candidate is dropped before it met all of val.
SEARCHES = {
    "gepa": (12, [ADVICE], False),
    "mipro": (16, [ADVICE, HARM, ADVICE], True),
    "bootstrap": (9, [], False),
}


def goes(prompt):
    if HARM in prompt.partition("<user>")[0]:
        return False
    return asks_for("longest")(prompt) or advised(prompt) or shown(prompt)


@pytest.mark.parametrize(
    ("name", "confirm", "verdict", "p"),
    [(name, HELPED, "confirmed", 1 / 32) for name in SEARCHES]
    + [(name, ALIKE, "not better", 1.0) for name in ("gepa", "bootstrap")],
)
def test_whatever_searches_is_raced_chosen_and_confirmed_alike(live, name, confirm, verdict, p):
    rollouts, lines, drops = SEARCHES[name]
    models = Models(actor=actor(goes), proposer=proposer(lines))
    request = wanted(name, TRAIN, VAL, rollouts + 2 * len(confirm), confirm=confirm, placebos=1)
    keep = Keep()
    compiled = compile_agent(Agent("react"), models.within(live), request, events=keep)
    start, placebo, *others = keep.of.candidates.values()
    assert (compiled.before.metric, compiled.after.metric) == (0.25, 0.5)
    assert (placebo.placebo, compiled.noise.gains, compiled.noise.won) == (True, (0.0,), False)
    assert any(each.dropped and not set(VAL) <= set(each.rollouts) for each in others) == drops
    (chosen,) = (each for each in others if set(confirm) & set(each.rollouts))
    assert chosen.mean_over(VAL) == 0.5
    assert set(confirm) <= set(start.rollouts)
    assert not set(confirm) & set(placebo.rollouts)
    found = compiled.confirmation
    assert (found.verdict, found.p, found.pairs) == (verdict, pytest.approx(p), len(confirm))
    assert compiled.improved == (verdict == "confirmed")
    assert compiled.rollouts <= request.limits.rollouts


def test_no_optimizer_is_left_out():
    assert set(SEARCHES) == {name for name, row in OPTIMIZERS.items() if row.searches}
