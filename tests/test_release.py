"""What the released loop gets wrong, by rows of docs/FIDELITY.md; each test is named after what must not return."""

from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.runtime import TrialRules
from tests.live import REWARDED, Recorder, acting, is_asked, model, region, walks


def test_reflections_surviving_between_variants(live):
    agent = Agent("rsso")
    (first, actors), (second, again) = walks(live), walks(live)
    with acting(live, first, rules=TrialRules(3, False)):
        before = agent(variant=REWARDED)
    with acting(live, second, rules=TrialRules(3, False)):
        after = agent(variant=REWARDED)
    assert before.memories["reflections"]["plans"]
    assert before.trials[-2].learnt["skills"]["library"] > 0
    for name in ("plans_from_past_attempts", "skills"):
        assert region(again[1].prompts[0], name) is None
    assert [actors[t].prompts for t in actors] == [again[t].prompts for t in again]
    assert before.trials == after.trials
    assert before.memories == after.memories


def test_the_target_call_not_seeing_the_instructions(live):
    said: dict[str, list[str]] = {}
    lm, _ = walks(live)
    with acting(
        live,
        lambda role, n: lm(role, n) if role == "actor" else model(Recorder(n, said.setdefault(role, []))),
        rules=TrialRules(3, False),
    ):
        Agent("sso")(variant=REWARDED)
    summary, steps, target = said["verbalizer"][:3]
    assert is_asked(summary, "summary")
    assert region(summary, "summary") is None
    assert region(steps, "summary")
    assert region(target, "summary") == region(steps, "summary")
    assert region(target, "steps")
