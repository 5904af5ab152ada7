"""The skill verbalizer: three calls, each of which reads the earlier answers, and the judgement whether a new skill is
already known (SSO, section 3.3; rSSO, section 2.2)."""

import dspy


class SummarizeSkill(dspy.Signature):
    """Here are excerpts from successful play in a simulated world. The same skill is at work in each of them. Work out
    what it is: what happens in the excerpts, and what do they have in common in where they start, what is done and
    where they end? Give the skill a short name. Leave instructions and goal for later."""

    examples: str = dspy.InputField(desc="excerpts of play; of each, what is as in the one before it is left out")

    summary: str = dspy.OutputField(desc="what happens in the excerpts and what they share")
    skill_name: str = dspy.OutputField(desc="a name of two to five words")


class WriteInstructions(dspy.Signature):
    """Turn a skill that was seen at work into instructions another player can follow. They must hold for every
    excerpt and be general: keep what is the same everywhere, and speak of what differs by its kind. Every instruction
    is one action in the form of an action template; where the world asked with numbered options, say which option to
    answer with. Do not mention the excerpts."""

    examples: str = dspy.InputField(desc="excerpts, each from an initial to a final state")
    summary: str = dspy.InputField(desc="what happens in the excerpts and what they share")
    skill_name: str = dspy.InputField(desc="name of the skill")
    action_templates: str = dspy.InputField(desc="the forms an action may take")

    steps: list[str] = dspy.OutputField(desc="the steps in order, one action each, without numbers")


class NameTarget(dspy.Signature):
    """Say how one can see that a skill has been carried out: one observation, general enough to fit the final state
    of every excerpt and every situation in which the instructions apply, and specific enough to tell that they were
    followed to the end."""

    examples: str = dspy.InputField(desc="excerpts, each from an initial to a final state")
    summary: str = dspy.InputField(desc="what happens in the excerpts and what they share")
    skill_name: str = dspy.InputField(desc="name of the skill")
    steps: list[str] = dspy.InputField(desc="the steps of the skill in order")

    target: str = dspy.OutputField(desc="one sentence that describes the state reached")


class JudgeEquivalence(dspy.Signature):
    """Compare a new skill with those a library already holds. Two skills are equivalent when following either leaves
    the player in the same situation by essentially the same actions, however they are worded. Skills that differ in
    the object, the place or the result are not."""

    library: str = dspy.InputField(desc="the known skills, numbered, each with its target and instructions")
    new_skill: str = dspy.InputField(desc="target and instructions of the new skill")

    equivalent: list[int] = dspy.OutputField(desc="numbers of the library skills the new one is equivalent to, or []")
