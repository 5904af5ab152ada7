"""What the writers of memories are asked, a signature each. Their programs alone depend on them: a run without such a
memory is not touched by what is said here."""

from typing import Literal

import dspy
from pydantic import BaseModel


class InsightEdit(BaseModel):
    operation: Literal["ADD", "EDIT", "AGREE", "REMOVE"]
    number: int = 0
    text: str = ""


class ReviseInsights(dspy.Signature):
    """You keep a list of insights for a player of a simulated world. Study the attempts below: where one failed and
    another succeeded, find what made the difference; where all succeeded, find what they have in common. Then edit the
    list. ADD an insight that it lacks, AGREE with one that the attempts confirm, EDIT one that they make more precise,
    REMOVE one that they contradict. An insight holds for other tasks too and names no object of one task. Make four
    edits at most."""

    task: str = dspy.InputField(desc="what had to be achieved in the last attempt")
    known_insights: list[str] = dspy.InputField(desc="the list as it stands; an edit names an insight by its number")
    failed_attempt: str = dspy.InputField(desc="an attempt that earned less than the others", default="")
    successful_attempts: list[str] = dspy.InputField(desc="attempts that earned more")

    insight_edits: list[InsightEdit] = dspy.OutputField(
        desc="operation; number of the insight, 0 for a new one; text of a new or edited insight"
    )


class Workflow(BaseModel):
    description: str
    steps: list[str]


class InduceWorkflows(dspy.Signature):
    """Here is an attempt that solved its task. Extract the workflows in it that other tasks in this world can use: a
    few actions in a row that reach one subgoal. Describe the subgoal in one sentence. Write every step as one action,
    and put a word in capitals, such as OBJECT or PLACE, for what differs from task to task. Leave out what did not
    lead to the goal, and workflows that are known already. Give three workflows at most."""

    task: str = dspy.InputField(desc="what had to be achieved")
    known_workflows: list[str] = dspy.InputField(desc="subgoals of the workflows that are known already")
    attempt: str = dspy.InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = dspy.InputField(desc="how the attempt ended, and at which steps the score changed")

    workflows: list[Workflow] = dspy.OutputField(desc="each a description of its subgoal, and its steps in order")


class Strategy(BaseModel):
    title: str
    description: str
    content: str


class ExtractStrategies(dspy.Signature):
    """Study an attempt at a task in a simulated world and draw strategies from it for other tasks. From a success, draw
    what made it succeed; from a failure, draw what would have prevented it. A strategy holds in general: it names no
    object and no place of this task. Do not say the same twice. Give three strategies at most."""

    task: str = dspy.InputField(desc="what had to be achieved")
    attempt: str = dspy.InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = dspy.InputField(desc="how the attempt ended, and at which steps the score changed")

    strategies: list[Strategy] = dspy.OutputField(
        desc="each a short title, a description in one sentence, and its content in one to three sentences"
    )


class BulletTag(BaseModel):
    id: str
    tag: Literal["helpful", "harmful", "neutral"]


class ReviewPlaybook(dspy.Signature):
    """A player of a simulated world was given a playbook and made the attempt below. Judge every bullet of the playbook
    by the attempt: helpful where following it earned something, harmful where it misled, neutral where it played no
    part. Then write the bullets that the playbook lacks: facts of the world, ways to do things and mistakes to avoid,
    in one sentence each, that hold for other tasks too. Give five new bullets at most."""

    task: str = dspy.InputField(desc="what had to be achieved")
    playbook: str = dspy.InputField(desc="the bullets that the player was given, each with its id", default="")
    attempt: str = dspy.InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = dspy.InputField(desc="how the attempt ended, and at which steps the score changed")

    bullet_tags: list[BulletTag] = dspy.OutputField(desc="id and tag of every bullet of the playbook")
    new_bullets: list[str] = dspy.OutputField(desc="bullets that the playbook lacks, one sentence each")


class RewriteCheatsheet(dspy.Signature):
    """You keep a cheatsheet for a player of a simulated world, who reads it before every task. Update it after the
    attempt below. Keep what may help with other tasks: facts of the world, action sequences that worked, mistakes and
    their remedies. Drop what the attempt proved wrong and what is of use in this one task only. What you leave out is
    lost. Keep the cheatsheet short and in order."""

    cheatsheet: str = dspy.InputField(desc="the cheatsheet as it stands", default="")
    task: str = dspy.InputField(desc="what had to be achieved")
    attempt: str = dspy.InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = dspy.InputField(desc="how the attempt ended, and at which steps the score changed")

    new_cheatsheet: str = dspy.OutputField(desc="the whole new cheatsheet, one sentence a line")
