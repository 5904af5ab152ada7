"""States of programs: read from DSPy's own files and compiled programs, and their fingerprints."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dspy

from rsso_dspy.errors import UsageError
from rsso_dspy.files import atomic_write_text, read_json


@dataclass(frozen=True, slots=True)
class SavedState:
    predictors: dict[str, Any]  # their states by name
    method: str  # empty if the file does not name it


def read_state(path: Path) -> SavedState:
    """Read a JSON file of `Agent.save`, an optimizer or `rsso-dspy compile`. Raises `UsageError` for any other file."""
    try:
        data = read_json(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; agent.save(PATH) writes such a file") from None

    if isinstance(data, dict) and isinstance(data.get("state"), dict):
        return SavedState(data["state"], str(data.get("method", "")))

    if not is_plain_state(data):
        raise UsageError(f"{path} is neither a saved agent nor a compiled program; agent.save(PATH) writes the first")
    predictors = {name: value for name, value in data.items() if name != "metadata"}
    return SavedState(predictors, str(data["metadata"].get("method", "")))


def is_plain_state(data: Any) -> bool:
    if not isinstance(data, dict) or not isinstance(data.get("metadata"), dict):
        return False
    states = [value for name, value in data.items() if name != "metadata"]
    if not states:
        return False
    return all(isinstance(state, dict) and "signature" in state for state in states)


def write_method(path: Path, method: str) -> None:
    data = read_json(path)
    data["metadata"]["method"] = method
    text = json.dumps(data, indent=2, ensure_ascii=False)
    atomic_write_text(path, text + "\n")


def merge_state(path: Path, saved: SavedState, method: str, own: Mapping[str, Any]) -> dict[str, Any]:
    """The state `own` of an agent of `method`, with the prompts of a file. Raises `UsageError` if that is of another
    method, or its predictors are not those of the agent. (An addition to a method brings predictors of its own.)"""
    base = method.partition("+")[0]
    brought: set[str] = set()
    if saved.method == base and base != method:
        brought = {name for name in own if name.startswith("constitution_writer")}

    theirs = {name: _list_fields(state) for name, state in saved.predictors.items()}
    ours = {name: _list_fields(state) for name, state in own.items() if name not in brought}
    if saved.method in ("", base, method) and _have_equal_forms(theirs, ours):
        return {**own, **saved.predictors}

    why = _tell_refusal(saved.method, method)
    raise UsageError(
        f"{path} {why}; {describe_difference(theirs, ours)}. Load it into an agent of the same method, whose modules "
        "were replaced by the same ones"
    )


def _have_equal_forms(saved: Mapping[str, Sequence[str]], own: Mapping[str, Sequence[str]]) -> bool:
    """Whether both have predictors of the same names, with as many fields."""
    if saved.keys() != own.keys():
        return False
    return all(len(labels) == len(own[name]) for name, labels in saved.items())


def _tell_refusal(saved_method: str, method: str) -> str:
    base = method.partition("+")[0]
    if saved_method in (base, method):
        return f"does not fit this agent of {method}"
    if saved_method:
        return f"was saved for the method {saved_method}, and this agent is of {method}"
    return f"does not name its method, and this agent is of {method}"


def describe_difference(saved: Mapping[str, Sequence[str]], own: Mapping[str, Sequence[str]]) -> str:
    """Say how the predictors of a file differ from those of an agent; both map names to the labels of fields."""
    parts = _list_differences("predictors", list(saved), list(own))
    for name, labels in saved.items():
        if name in own:
            parts += _list_differences(f"fields of {name}", labels, own[name])
    return "; ".join(parts) or "they have other fields"


def _list_differences(what: str, saved: Sequence[str], own: Sequence[str]) -> list[str]:
    parts = []
    only_saved = [name for name in saved if name not in own]
    if only_saved:
        parts.append(f"{what} that the agent lacks: {', '.join(only_saved)}")
    only_own = [name for name in own if name not in saved]
    if only_own:
        parts.append(f"{what} that the file lacks: {', '.join(only_own)}")
    return parts


def _list_fields(state: Any) -> list[str]:
    """Return the labels of a predictor's fields; none if the state is damaged."""
    try:
        fields = state["signature"]["fields"]
        return [str(field["prefix"]).rstrip(": ") for field in fields]
    except (KeyError, TypeError):
        return []


def fingerprint_program(program: dspy.Module) -> str:
    """Return 12 hexadecimal digits over the words of every predictor: equal ones send the same prompts."""
    return fingerprint_state(program.dump_state())


def is_shown(demo: Mapping[str, Any], predictor: dspy.Predict) -> bool:
    """Whether a prompt holds a demonstration: one without any answer shows nothing."""
    return any(demo.get(name) not in (None, "", []) for name in predictor.signature.output_fields)


def count_unshown_demos(program: dspy.Module) -> dict[str, int]:
    """Return the number of demonstrations that no prompt holds, by the predictor's name, of those that have any."""
    counts = {}
    for name, predictor in dspy.Module.named_predictors(program):
        unshown = sum(not is_shown(demo, predictor) for demo in predictor.demos)
        if unshown:
            counts[name] = unshown
    return counts


def sends_equal_prompts(first: dspy.Module, second: dspy.Module) -> bool:
    """Whether two programs of one method send the same prompts: demonstrations that are never shown do not count."""
    first_shown = _drop_unshown_demos(first)
    second_shown = _drop_unshown_demos(second)
    return fingerprint_program(first_shown) == fingerprint_program(second_shown)


def _drop_unshown_demos(program: dspy.Module) -> dspy.Module:
    copied = program.deepcopy()
    for _, predictor in dspy.Module.named_predictors(copied):
        predictor.demos = [demo for demo in predictor.demos if is_shown(demo, predictor)]
    return copied


def fingerprint_state(state: Mapping[str, Any]) -> str:
    words = {}
    for name, predictor in state.items():
        words[name] = {"signature": predictor["signature"], "demos": predictor["demos"]}
    text = json.dumps(words, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
