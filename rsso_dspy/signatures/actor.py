"""The actor's two scaffolds. Field order is the order of the prompt's regions (rSSO, Algorithm 1); a region that a
method lacks, or that is empty, is left out of the prompt by the adapter."""

import dspy


class FlatActor(dspy.Signature):
    """You are playing a text game that simulates a science laboratory and its surroundings. Solve the task by one
    action at a time.

    First think: what did the last action change, what is still missing, where could it be found? Then give exactly
    one action that fits one of the action templates, naming things the way the observations name them. Do not repeat
    an action that had no effect."""

    constitution: str = dspy.InputField(
        desc="rules learnt from earlier experience in this world; follow them", default=""
    )
    plans_from_past_attempts: str = dspy.InputField(
        desc="what you wrote after your earlier, failed attempts at this very task; do better than those", default=""
    )
    task: str = dspy.InputField(desc="what has to be achieved")
    progress: str = dspy.InputField(
        desc="what you noted on the way: what is done already, and what is left", default=""
    )
    action_templates: str = dspy.InputField(desc="the forms an action may take, and what to be careful about")
    history: str = dspy.InputField(desc="what you saw and did lately, newest last")

    thought: str = dspy.OutputField(desc="what the situation is and what to do about it, in a few sentences")
    action: str = dspy.OutputField(desc="one action in the form of a template, nothing else")


class SkillActor(dspy.Signature):
    """You are playing a text game that simulates a science laboratory and its surroundings. Solve the task by one
    action at a time. You may be offered subgoals with instructions that led to them before: you may pursue one of
    them or none.

    Reason about the effect of your last action and lay out a plan. Then copy, word for word, the subgoal you are
    pursuing, or write none. Then give exactly one action that fits one of the action templates, naming things the
    way the observations name them."""

    constitution: str = dspy.InputField(
        desc="rules learnt from earlier experience in this world; follow them", default=""
    )
    plans_from_past_attempts: str = dspy.InputField(
        desc="what you wrote after your earlier, failed attempts at this very task; do better than those", default=""
    )
    task: str = dspy.InputField(desc="what has to be achieved")
    progress: str = dspy.InputField(
        desc="what you noted on the way: what is done already, and what is left", default=""
    )
    action_templates: str = dspy.InputField(desc="the forms an action may take, and what to be careful about")
    skills: str = dspy.InputField(
        desc="subgoals that were reached before, each with instructions for reaching it", default=""
    )
    history: str = dspy.InputField(desc="what you saw and did lately, newest last")

    reasoning: str = dspy.OutputField(desc="what the last action did, and the plan from here")
    current_subgoal: str = dspy.OutputField(desc="one of the offered subgoals, copied word for word, or none")
    next_action: str = dspy.OutputField(desc="one action in the form of a template, nothing else")
