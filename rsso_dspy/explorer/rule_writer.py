"""The rule writer: conditions on a stretch of play, each with the rule that it teaches. It also merges rules."""

from collections.abc import Mapping
from typing import Any

from rsso_dspy.explorer.commands import extract_content_words, normalize_words
from rsso_dspy.explorer.prompt_parser import ParsedPrompt, parse_region_list
from rsso_dspy.explorer.reflector import RecordedAction, parse_transcript
from rsso_dspy.explorer.scene_parser import is_failure
from rsso_dspy.explorer.seeded_noise import SeededNoise
from rsso_dspy.explorer.verbalizer import is_near_duplicate

_MOST = 8


def write_or_merge_rules(prompt: ParsedPrompt, dice: SeededNoise) -> Mapping[str, Any]:
    """Rules of the categories asked for: merged ones where some were gathered, else those that a stretch teaches."""
    gathered = any(name.startswith("gathered_") for name in prompt.regions)
    return summarize_rules(prompt, dice) if gathered else write_rules(prompt, dice)


def write_rules(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """``abstract_rules``, ``error_rules`` and ``progress_rules``, none of which is known already."""
    acts = parse_transcript(prompt.get_region("transcript"), prompt.get_region("outcome"))
    known = normalize_words(prompt.get_region("known_rules"))
    abstract = [rule for rule in dict.fromkeys(_derive_abstract_rules(acts)) if normalize_words(rule) not in known]
    errors = [rule for rule in _derive_error_rules(acts) if normalize_words(rule["mistake"]) not in known]
    return {
        "abstract_rules": abstract[:_MOST],
        "error_rules": errors[:_MOST],
        "progress_rules": _derive_progress_rules(acts, prompt.get_region("task"))[:_MOST],
    }


def summarize_rules(prompt: ParsedPrompt, _dice: SeededNoise) -> Mapping[str, Any]:
    """Both lists without what another entry already says; the longer of two alike entries stays."""
    errors = [
        entry
        for entry in parse_region_list(prompt.get_region("gathered_error_rules"))
        if isinstance(entry, Mapping) and {"mistake", "solution"} <= entry.keys()
    ]
    rules = [str(rule) for rule in parse_region_list(prompt.get_region("gathered_abstract_rules"))]
    return {"abstract_rules": _merge_abstract_rules(rules), "error_rules": _merge_error_rules(errors)}


def _derive_abstract_rules(acts: list[RecordedAction]) -> list[str]:
    """Abstract rules that the stretch shows about how the world works."""
    found = []
    for act in acts:
        done, seen = act.command, act.seen.lower()
        if done is None:
            continue
        if act.is_ambiguous:
            found.append("When the world asks which of several actions is meant, answer with a number.")
        elif "is now open" in seen:
            found.append(f"What is in the {done.thing} shows once it is open.")
        elif "to the inventory" in seen:
            found.append("What has to be carried must be picked up first.")
        elif done.verb == "teleport" and "you teleport" in seen:
            found.append("Every known room is one step away.")
        elif done.verb == "use" and "measures" in seen:
            found.append("A thermometer measures what it is used on.")
        elif done.verb == "activate" and "is now activated" in seen:
            found.append(f"The {done.thing} works only while it is on.")
    return found


def _derive_error_rules(acts: list[RecordedAction]) -> list[dict[str, str]]:
    found: dict[str, str] = {}
    previous = ""
    for act in acts:
        if is_failure(act.seen):
            found[f"{act.text}, without effect"] = "name a thing that is visible here as the observation names it"
        elif act.text == previous and act.text != "wait":
            found[f"{act.text}, twice in a row"] = "do something else when an action changes nothing"
        elif act.gain < 0:
            found[f"{act.text}, which cost the task"] = "focus only on what the task asks for"
        previous = act.text
    return [{"mistake": mistake, "solution": solution} for mistake, solution in found.items()]


def _derive_progress_rules(acts: list[RecordedAction], task: str) -> list[str]:
    told = extract_content_words(task)
    found = []
    for act in acts:
        done = act.command
        if done is None or not act.is_effective:
            continue
        if done.verb in ("focus", "pick up", "move", "mix") and extract_content_words(done.thing) & told:
            found.append(f"Done: {done.text}.")
        elif done.verb == "use" and "measures" in act.seen:
            found.append(f"Known: {act.seen.splitlines()[0]}.")
    return list(dict.fromkeys(found))


def _merge_abstract_rules(rules: list[str]) -> list[str]:
    kept: list[str] = []
    for rule in rules:
        twin = next((index for index, other in enumerate(kept) if _is_alike(rule, other)), None)
        if twin is None:
            kept.append(rule)
        elif len(rule) > len(kept[twin]):
            kept[twin] = rule
    return kept


def _merge_error_rules(errors: list[Any]) -> list[dict[str, str]]:
    kept: list[dict[str, str]] = []
    for entry in errors:
        rule = {"mistake": str(entry["mistake"]), "solution": str(entry["solution"])}
        if not any(_is_alike(" ".join(rule.values()), " ".join(other.values())) for other in kept):
            kept.append(rule)
    return kept


def _is_alike(one: str, other: str) -> bool:
    return is_near_duplicate(extract_content_words(one), extract_content_words(other))
