"""The proposer's call while a program is compiled. No agent makes it, so no run depends on it."""

import dspy

NAMED = "the thing named in"
"""What the instruction gives as an example of a role; a benchmark may have one that tells more."""


class ProposeEdits(dspy.Signature):
    """You improve the instruction of one role of an agent. The same instruction serves every task type listed, and
    variants of them that nobody has seen yet: other objects, other rooms, other answers.

    Say first what the attempts show: where the first chance was missed, and what that role could have read in its
    instruction to take it. Then give a few edits of the instruction, one to four. What already works stays as it is.

    Every added line is one short order that can be followed without knowing these attempts.
    - A line that holds for tasks of one type begins with the words of that type: In tasks about WORDS: ...
    - A line without such a beginning holds everywhere. Write one only where several task types show the same.
    - Never name an object, a box or a result of one variant. Say what it is in the task's words: the thing named in
      the task.
    - Facts about one variant are evidence, not orders. Points may come long after the action that earned them. Lines
      marked "Perhaps" come from a single variant.
    - What was tried before and did not win is not to be tried again in other words."""

    role: str = dspy.InputField(desc="whose instruction it is: what it reads besides, and what it answers")
    current_instruction: str = dspy.InputField(desc="its lines, numbered")
    task_types: str = dspy.InputField(
        desc="how the tasks of each type are worded (… differs), and how the present program does on training variants",
        default="",
    )
    action_templates: str = dspy.InputField(desc="the forms an action may take", default="")
    shared_by_variants: str = dspy.InputField(
        desc="what several variants of a type, or several types, have in common", default=""
    )
    tried_before: str = dspy.InputField(
        desc="earlier edits of this instruction, with the metric before and after on the same variants", default=""
    )
    attempts: str = dspy.InputField(
        desc="some attempts with that instruction, unsolved ones first, each told in a few lines", default=""
    )

    diagnosis: str = dspy.OutputField(desc="what the attempts show, in two or three sentences")
    edits: list[str] = dspy.OutputField(
        desc="one to four, each of the form 'add: LINE', 'change NUMBER: LINE' or 'drop NUMBER'"
    )
