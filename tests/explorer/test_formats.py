"""Every role answers in every format that DSPy asks for, and DSPy can read the answer."""

import dspy
import pytest

from rsso_dspy import signatures
from rsso_dspy.signatures import (
    ErrorRule,
    FlatActor,
    JudgeEquivalence,
    NameTarget,
    Reflect,
    SkillActor,
    SummarizeConstitution,
    SummarizeSkill,
    WriteInstructions,
    WriteRules,
)

EXPECTED = {
    FlatActor: lambda p: p.action and p.thought,
    SkillActor: lambda p: p.next_action == "teleport to kitchen" and p.current_subgoal == "The fridge is open.",
    Reflect: lambda p: "focus on thermometer" in p.plan and "red box" in p.what_went_wrong,
    SummarizeSkill: lambda p: p.summary and 2 <= len(p.skill_name.split()) <= 5,
    WriteInstructions: lambda p: p.steps == ["teleport to LOCATION", "pick up cup"],
    NameTarget: lambda p: "cup" in p.target,
    JudgeEquivalence: lambda p: p.equivalent == [2],
    WriteRules: lambda p: any("open cupbord" in rule.mistake for rule in p.error_rules) and p.abstract_rules,
    SummarizeConstitution: lambda p: (
        p.abstract_rules == ["Doors open.", "Water boils."]
        and p.error_rules == [ErrorRule(mistake="open wall", solution="open the door")]
    ),
}


def test_every_signature_of_the_program_is_covered():
    assert {getattr(signatures, name) for name in signatures.__all__} - {ErrorRule} == set(EXPECTED)


@pytest.mark.parametrize("adapter", ["chat", "json", "xml"])
@pytest.mark.parametrize("signature", EXPECTED, ids=lambda signature: signature.__name__)
def test_answer_is_parsed_and_means_something(ask, signature, adapter):
    assert EXPECTED[signature](ask(signature, adapter=adapter))


@pytest.mark.parametrize("absent", ["constitution", "plans_from_past_attempts", "skills"])
def test_absent_regions_are_no_obstacle(ask, absent):
    assert ask(SkillActor, **{absent: None}).next_action


def test_role_is_known_by_its_fields_not_by_its_instruction(ask):
    reworded = Reflect.with_instructions("Say what to do better.")
    assert ask(reworded).plan == ask(Reflect).plan


def test_unknown_fields_get_a_value_of_their_type(ask):
    class Unknown(dspy.Signature):
        """Judge the weather."""

        task: str = dspy.InputField()
        sunny: bool = dspy.OutputField()
        places: list[str] = dspy.OutputField()
        degrees: int = dspy.OutputField()

    answer = ask(Unknown)
    assert (answer.sunny, answer.places, answer.degrees) == (False, [], 0)
