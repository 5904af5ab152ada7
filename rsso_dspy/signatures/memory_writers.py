"""What the writers of memories are asked, a signature each: the reflector (Reflexion, section 3; rSSO, section 2.3),
the skill verbalizer, whose calls read the earlier answers (SSO, section 3.3; rSSO, section 2.2), the contenders'
writers. Their programs alone depend on them: a run without such a memory is not touched by what is said here."""

from functools import lru_cache
from typing import Any, Literal

from dspy import InputField, OutputField, Signature
from pydantic import BaseModel


class Reflect(Signature):
    """You attempted a task in a simulated world and did not complete it. Study the record of the attempt and find the
    decisions that cost you the task: things searched for in the wrong place, a wrong object chosen, a step left out,
    actions that were not understood, time spent in circles. Do not retell the attempt.

    Then write a plan for the next attempt at the same task that avoids these mistakes. Name the places, the objects
    and the actions, keep what is known to have worked, and do not propose again what earlier plans already tried
    without success."""

    task: str = InputField(desc="what had to be achieved")
    earlier_plans: list[str] = InputField(desc="the plans written after attempts before this one", default=[])
    transcript: str = InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = InputField(desc="how the attempt ended, and at which steps the score changed")

    mistakes: str = OutputField(desc="the decisions that cost the task, and what the world answered, in one sentence")
    plan: str = OutputField(desc="what to do next time, as one or two short imperative sentences with whole actions")


DrawPattern = (  # what the reflector is asked after a success instead
    Reflect.delete("mistakes")
    .with_updated_fields("plan", desc="how to go about tasks of this type, as short imperative sentences")
    .with_instructions(
        "You attempted a task in a simulated world and completed it. Study the record and find what made it succeed: "
        "where things were found, which actions earned points, in which order, and which were not needed. Then write "
        "for other tasks of this type what to do again, and leave out what belongs to this task alone."
    )
)

ADDED_FIELDS: dict[str, dict[str, tuple[Any, str]]] = {
    "loops": {"loops": (str, "where the attempt went in circles; the plan has to break them")},
    "across-tasks": {
        "pattern": (str, "the mistake as it may be made in other tasks of this type, in one short sentence; or none"),
    },
    "structured": {
        "failed_action_pattern": (str, "the kind of action that failed, and how often"),
        "root_cause": (str, "why the attempt failed, in one sentence"),
        "missing_exploration": (str, "what was never looked at or tried; none if nothing"),
        "strategy_adjustment": (str, "what to change in the strategy, in one sentence"),
        "priority_locations": (list[str], "places to go to first next time, the most promising first"),
    },
    "counterfactual": {
        "critical_step": (int, "number of the step at which the attempt was lost; 0 if there is none"),
        "should_have_done": (str, "the action that would have been right at that step"),
        "expected_outcome": (str, "what that action would have led to"),
    },
}
"""Improvement to the fields that it adds, the input `loops` ahead of `outcome`, outputs ahead of `plan`."""


@lru_cache(maxsize=64)
def add_reflection_fields(signature: Any, improvements: frozenset[str]) -> Any:
    """A reflector's signature with the fields of these improvements; the same object when it lacks none."""
    for improvement in sorted(improvements):
        for name, (kind, description) in ADDED_FIELDS.get(improvement, {}).items():
            if name in signature.fields:
                continue
            fields, following, field = signature.output_fields, "plan", OutputField(desc=description)
            if improvement == "loops":
                fields, following = signature.input_fields, "outcome"
                field = InputField(desc=description, default="")
            signature = signature.insert(list(fields).index(following), name, field, kind)
    return signature


class DistillReflections(Signature):
    """Plans that a player wrote after failed attempts at tasks of one type are about to be forgotten. Keep what holds
    beyond the attempts they were written after.

    Merge it with the lists that stand already: state every rule once, in as few words as it needs, keep what still
    holds, drop what the plans have shown to be wrong, and invent nothing. Leave out names that belong to a single
    attempt."""

    task_type: str = InputField(desc="the type of the tasks")
    known_never: list[str] = InputField(desc="what stands already of what never to do")
    known_always: list[str] = InputField(desc="what stands already of what always to do")
    known_strategy: str = InputField(desc="the strategy for this type of task so far", default="")
    plans: str = InputField(desc="the plans that are about to be forgotten, oldest first")

    never: list[str] = OutputField(desc="what never to do, at most ten short sentences that begin with Do not")
    always: list[str] = OutputField(desc="what always to do, at most ten short imperative sentences")
    strategy: str = OutputField(desc="how to go about tasks of this type, in one or two sentences")


class SummarizeSkill(Signature):
    """Here are excerpts from successful play in a simulated world. The same skill is at work in each of them. Work out
    what it is: what happens in the excerpts, and what do they have in common in where they start, what is done and
    where they end? Give the skill a short name. Leave instructions and goal for later."""

    examples: str = InputField(desc="excerpts of play")

    summary: str = OutputField(desc="what happens in the excerpts and what they share")
    skill_name: str = OutputField(desc="a name of two to five words")


class WriteInstructions(Signature):
    """Turn a skill that was seen at work into instructions another player can follow. They must hold for every
    excerpt and be general: keep what is the same everywhere, and speak of what differs by its kind. Every instruction
    is one action in the form of an action template; where the world asked with numbered options, say which option to
    answer with. Do not mention the excerpts."""

    examples: str = InputField(desc="excerpts of play, in each of which the skill is carried out")
    summary: str = InputField(desc="what happens in the excerpts and what they share")
    skill_name: str = InputField(desc="name of the skill")
    action_templates: str = InputField(desc="the forms an action may take")

    steps: list[str] = OutputField(desc="the steps in order, one action each, without numbers")


class NameTarget(Signature):
    """Say how one can see that a skill has been carried out: one observation, general enough to fit the final state
    of every excerpt and every situation in which the instructions apply, and specific enough to tell that they were
    followed to the end."""

    examples: str = InputField(desc="excerpts of play, each up to the state that the skill led to")
    summary: str = InputField(desc="what happens in the excerpts and what they share")
    skill_name: str = InputField(desc="name of the skill")
    steps: list[str] = InputField(desc="the steps of the skill in order")

    target: str = OutputField(desc="one sentence that describes the state reached")


class JudgeEquivalence(Signature):
    """Compare a new skill with those a library already holds. Two skills are equivalent when following either leaves
    the player in the same situation by essentially the same actions, however they are worded. Skills that differ in
    the object, the place or the result are not."""

    library: str = InputField(desc="the known skills, numbered, each with its target and instructions")
    new_skill: str = InputField(desc="target and instructions of the new skill")

    equivalent: list[int] = OutputField(desc="numbers of the library skills the new one is equivalent to, or []")


class InsightEdit(BaseModel):
    operation: Literal["ADD", "EDIT", "AGREE", "REMOVE"]
    number: int = 0
    text: str = ""


class ReviseInsights(Signature):
    """You keep a list of insights for a player of a simulated world. Study the attempts below: where one failed and
    another succeeded, find what made the difference; where all succeeded, find what they have in common. Then edit the
    list. ADD an insight that it lacks, AGREE with one that the attempts confirm, EDIT one that they make more precise,
    REMOVE one that they contradict. An insight holds for other tasks too and names no object of one task. Make four
    edits at most."""

    task: str = InputField(desc="what had to be achieved in the last attempt")
    known_insights: list[str] = InputField(desc="the list as it stands; an edit names an insight by its number")
    failed_attempt: str = InputField(desc="an attempt that earned less than the others", default="")
    successful_attempts: list[str] = InputField(desc="attempts that earned more")

    insight_edits: list[InsightEdit] = OutputField(
        desc="operation; number of the insight, 0 for a new one; text of a new or edited insight"
    )


class Workflow(BaseModel):
    description: str
    steps: list[str]


class InduceWorkflows(Signature):
    """Here is an attempt that solved its task. Extract the workflows in it that other tasks in this world can use: a
    few actions in a row that reach one subgoal. Describe the subgoal in one sentence. Write every step as one action,
    and put a word in capitals, such as OBJECT or PLACE, for what differs from task to task. Leave out what did not
    lead to the goal, and workflows that are known already. Give three workflows at most."""

    task: str = InputField(desc="what had to be achieved")
    known_workflows: list[str] = InputField(desc="subgoals of the workflows that are known already")
    attempt: str = InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = InputField(desc="how the attempt ended, and at which steps the score changed")

    workflows: list[Workflow] = OutputField(desc="each a description of its subgoal, and its steps in order")


class Strategy(BaseModel):
    title: str
    description: str
    content: str


class ExtractStrategies(Signature):
    """Study an attempt at a task in a simulated world and draw strategies from it for other tasks. From a success, draw
    what made it succeed; from a failure, draw what would have prevented it. A strategy holds in general: it names no
    object and no place of this task. Do not say the same twice. Give three strategies at most."""

    task: str = InputField(desc="what had to be achieved")
    attempt: str = InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = InputField(desc="how the attempt ended, and at which steps the score changed")

    strategies: list[Strategy] = OutputField(
        desc="each a short title, a description in one sentence, and its content in one to three sentences"
    )


class BulletTag(BaseModel):
    id: str
    tag: Literal["helpful", "harmful", "neutral"]


class ReviewPlaybook(Signature):
    """A player of a simulated world was given a playbook and made the attempt below. Judge every bullet of the playbook
    by the attempt: helpful where following it earned something, harmful where it misled, neutral where it played no
    part. Then write the bullets that the playbook lacks: facts of the world, ways to do things and mistakes to avoid,
    in one sentence each, that hold for other tasks too. Give five new bullets at most."""

    task: str = InputField(desc="what had to be achieved")
    playbook: str = InputField(desc="the bullets that the player was given, each with its id", default="")
    attempt: str = InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = InputField(desc="how the attempt ended, and at which steps the score changed")

    bullet_tags: list[BulletTag] = OutputField(desc="id and tag of every bullet of the playbook")
    new_bullets: list[str] = OutputField(desc="bullets that the playbook lacks, one sentence each")


class RewriteCheatsheet(Signature):
    """You keep a cheatsheet for a player of a simulated world, who reads it before every task. Update it after the
    attempt below. Keep what may help with other tasks: facts of the world, action sequences that worked, mistakes and
    their remedies. Drop what the attempt proved wrong and what is of use in this one task only. What you leave out is
    lost. Keep the cheatsheet short and in order."""

    cheatsheet: str = InputField(desc="the cheatsheet as it stands", default="")
    task: str = InputField(desc="what had to be achieved")
    attempt: str = InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = InputField(desc="how the attempt ended, and at which steps the score changed")

    new_cheatsheet: str = OutputField(desc="the whole new cheatsheet, one sentence a line")
