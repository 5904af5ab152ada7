"""The constitution's two calls: writing rules while acting, and summarizing them (OmniReflect, section 3). Sentences of
an instruction that begin with "Abstract rules", "Error rules" or "Progress rules" are left out with the fields of that
category if it is not kept (`programs/constitution_writer.py`)."""

from dspy import InputField, OutputField, Signature
from pydantic import BaseModel


class ErrorRule(BaseModel):
    """A mistake that was made, and what should be done instead."""

    mistake: str
    solution: str


class WriteRules(Signature):
    """You advise a player in a simulated world. From the stretch of play below, distil rules of the kinds asked for.
    Abstract rules state how this world works or how tasks of this kind are done, without names that belong to this
    one task. Error rules pair a mistake that was really made in this stretch with what to do instead; if there was
    none, give none, and predict nothing. Error rules are also for steps that were wasted: where the same could have
    been had in fewer, pair the detour that was taken with the shorter way. Progress rules state what is done and what
    is left in the present task. Do not write down again what is already known. Progress rules alone are stated anew
    each time."""

    examples: str = InputField(desc="other stretches of play, each with the rules that were drawn from it", default="")
    task: str = InputField(desc="what has to be achieved")
    known_rules: list[str] = InputField(desc="rules that stand already", default=[])
    transcript: str = InputField(desc="the stretch of play, every action with what was seen after it")
    outcome: str = InputField(desc="how the attempt ended and what its steps earned", default="")

    abstract_rules: list[str] = OutputField(desc="facts and procedures that hold beyond this task")
    error_rules: list[ErrorRule] = OutputField(desc="mistakes and detours seen in this stretch, each with its solution")
    progress_rules: list[str] = OutputField(desc="what is done and what is left in this task")


class SummarizeConstitution(Signature):
    """Below are rules gathered over several tasks in one world. Make them a compact rule book: merge rules that say the
    same, keep every fact that any of them holds, settle contradictions in favour of the more specific, and invent
    nothing."""

    gathered_abstract_rules: list[str] = InputField(desc="facts and procedures, as gathered")
    gathered_error_rules: list[ErrorRule] = InputField(desc="mistakes and solutions, as gathered")

    abstract_rules: list[str] = OutputField(desc="the merged facts and procedures")
    error_rules: list[ErrorRule] = OutputField(desc="the merged mistakes and solutions")
