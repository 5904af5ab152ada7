"""The reflector's call, made after a failed trial (Reflexion, section 3; rSSO, section 2.3)."""

import dspy


class Reflect(dspy.Signature):
    """You attempted a task in a simulated world and did not complete it. Study the record of the attempt and find the
    decisions that cost you the task: things searched for in the wrong place, a wrong object chosen, a step left out,
    actions that were not understood, time spent in circles. Do not retell the attempt.

    Then write a plan for the next attempt at the same task that avoids these mistakes. Name the places, the objects
    and the actions, keep what is known to have worked, and do not propose again what earlier plans already tried
    without success."""

    task: str = dspy.InputField(desc="what had to be achieved")
    earlier_plans: str = dspy.InputField(desc="the plans written after attempts before this one", default="")
    transcript: str = dspy.InputField(desc="every action of the attempt, numbered, with what was seen after it")
    outcome: str = dspy.InputField(desc="how the attempt ended, and at which steps the score changed")

    what_went_wrong: str = dspy.OutputField(desc="the mistakes that decided the outcome, concretely")
    plan: str = dspy.OutputField(desc="what to do differently next time, as short imperative sentences")
