"""Modules that a user puts in the place of an agent's own: which may be put there, how they are asked, and what is read
of their answers.

    agent.actor = dspy.ReAct(MySignature, tools=[look_up])
"""

from collections.abc import Mapping
from functools import lru_cache
from inspect import isclass, signature
from typing import Any, get_args

import dspy

from rsso_dspy.errors import UsageError
from rsso_dspy.programs.methods import MODULES, Method, actor_signature, load_memory
from rsso_dspy.regions import ABOUT, EXAMPLES, NOTICE, POSSIBLE, PROGRESS, REGIONS, TEMPLATES, list_items

UNNEEDED = frozenset({ABOUT, TEMPLATES, EXAMPLES, NOTICE, PROGRESS, POSSIBLE})
"""Inputs that an actor may lack: what is said of the world, of the last action and of what has been done."""


def check_replacement(name: str, method: Method, module: dspy.Module) -> None:
    """Raise `UsageError` if a module cannot stand in for the one of this name: an input that it does not take would
    keep a memory out of the prompt without a word."""
    if missing := list_needed_fields(name, method) - list_fields(module):
        raise UsageError(
            f"this {type(module).__name__} cannot be the {name}: its signature lacks {', '.join(sorted(missing))}; add "
            "them to the signature, which may have more"
        )


def list_needed_fields(name: str, method: Method) -> set[str]:
    """Return the fields of a method's own module without those that it can do without: regions of the prompt that no
    memory of the method fills, and outputs that decide nothing."""
    if name != "actor":
        return list_fields(MODULES[name].make()) - {"mistakes"}

    fields = set(actor_signature(method).fields)
    filled = {load_memory(memory).region for memory in method.memories}
    for region in REGIONS.values():
        if not region.required and region.name not in filled:
            fields.discard(region.name)
    if "skills" not in filled:
        fields.discard("subgoal")
    return fields - {"thought"}


def list_fields(module: dspy.Module) -> set[str]:
    """Return the names of inputs and outputs of all predictors of a module."""
    return {name for predictor in module.predictors() for name in predictor.signature.fields}


def select_inputs(name: str, module: dspy.Module, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the inputs of a module in the form that its signature has: an actor may lack some, have a list as one
    text, and give no default to a region that is empty now."""
    if name != "actor":
        return inputs

    kinds: dict[str, Any] = {}
    for predictor in module.predictors():
        for field, info in predictor.signature.input_fields.items():
            kinds[field] = info.annotation
    parameters = signature(type(module).forward).parameters

    selected: dict[str, Any] = {}
    for field, value in inputs.items():
        if field in UNNEEDED and field not in kinds and field not in parameters:
            continue
        is_one_text = isinstance(value, list) and kinds.get(field) is str
        selected[field] = list_items(value) if is_one_text else value

    for field, kind in kinds.items():
        if field in REGIONS and not REGIONS[field].required:
            selected.setdefault(field, "" if kind is str else REGIONS[field].kind())
    return selected


def join_listed_texts(name: str, answer: Any) -> Any:
    """Return an answer whose lists are one text, an item a line, where the package's own module answers with a text."""
    if name == "actor" or not isinstance(answer, dspy.Prediction):
        return answer
    fields = [field for field in list_text_outputs(name) if isinstance(answer.get(field), list | tuple)]
    if not fields:
        return answer
    joined = answer.copy()
    for field in fields:
        joined[field] = "\n".join(str(item).strip() for item in answer[field])
    return joined


@lru_cache(maxsize=64)
def list_text_outputs(name: str) -> tuple[str, ...]:
    """Return the outputs of the package's own module that are texts."""
    outputs = [predictor.signature.output_fields.items() for predictor in MODULES[name].make().predictors()]
    return tuple(field for fields in outputs for field, info in fields if info.annotation is str)


TOOLS_AND_CODE = ("ReAct", "ReActV2", "CodeAct", "ProgramOfThought", "RLM")
"""Modules of DSPy that read calls of tools, or code, out of answers."""


def needs_dspys_format(module: dspy.Module) -> bool:
    """Whether a module is asked in DSPy's own format: it uses tools or code, or a field holds what is no plain text,
    such as an image."""
    for _, part in module.named_sub_modules():
        for kind in type(part).__mro__:
            if kind.__name__ in TOOLS_AND_CODE and kind.__module__.startswith("dspy."):
                return True
    for predictor in module.predictors():
        for field in predictor.signature.fields.values():
            if _holds_objects(field.annotation):
                return True
    return False


def _holds_objects(annotation: Any) -> bool:
    """Whether a type is, or has inside, one of DSPy's own types, or a dictionary."""
    if isclass(annotation) and issubclass(annotation, dspy.Type | dict):
        return True
    return any(_holds_objects(part) for part in get_args(annotation))
