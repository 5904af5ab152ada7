"""The engine: one request in, one response out, with the same bytes for the same request and seed in every process.

A role is recognised by the output fields that the adapter lists, never by the words of an instruction; what the
instruction says is advice to the role. The engine holds nothing but its seed, so one object serves many threads.
"""

from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, Usage, response_to_events

from rsso_dspy.explorer import memory_writers, prompt_parser
from rsso_dspy.explorer.actor import answer_flat_actor, answer_subgoal_actor
from rsso_dspy.explorer.heeded_roles import write_heeded_steps, write_heeded_target
from rsso_dspy.explorer.proposer import (
    revise_instruction,
    rewrite_instruction,
    shorten_instruction,
    suggest_instruction,
)
from rsso_dspy.explorer.reflection_fields import distill_plans, write_full_reflection
from rsso_dspy.explorer.rule_writer import write_or_merge_rules
from rsso_dspy.explorer.seeded_noise import SeededNoise
from rsso_dspy.explorer.verbalizer import list_equivalent_skills, summarize_skill

CHARACTERS_PER_TOKEN = 4
"""Tokens are estimated as characters / 4, rounded up: the engine has no tokenizer."""

Answer = Mapping[str, Any]
Role = Callable[[prompt_parser.ParsedPrompt, SeededNoise], Answer]

ROLES: tuple[tuple[frozenset[str], Role], ...] = (
    (frozenset({"next_action"}), answer_subgoal_actor),
    (frozenset({"action"}), answer_flat_actor),
    (frozenset({"plan"}), write_full_reflection),
    (frozenset({"never", "always"}), distill_plans),
    (frozenset({"summary", "skill_name"}), summarize_skill),
    (frozenset({"steps"}), write_heeded_steps),
    (frozenset({"target"}), write_heeded_target),
    (frozenset({"equivalent"}), list_equivalent_skills),
    (frozenset({"abstract_rules"}), write_or_merge_rules),
    (frozenset({"error_rules"}), write_or_merge_rules),
    (frozenset({"progress_rules"}), write_or_merge_rules),
    (frozenset({"insight_edits"}), memory_writers.vote_on_lessons),
    (frozenset({"workflows"}), memory_writers.induce_workflows),
    (frozenset({"strategies"}), memory_writers.extract_strategies),
    (frozenset({"bullet_tags", "new_bullets"}), memory_writers.judge_bullets),
    (frozenset({"new_cheatsheet"}), memory_writers.rewrite_cheatsheet),
    (frozenset({"new_instruction"}), revise_instruction),
    (frozenset({"shortened_instruction"}), shorten_instruction),
    (frozenset({"proposed_instruction"}), suggest_instruction),
)
"""Sets of output fields that identify a role, most telling first; a role matches if all of its set are asked for."""


class Explorer:
    """Rule-based engine for ``dspy.LM("embedded/explorer", engine=Explorer(seed))``.

    The seed stands for the sampling of a language model. Its effect grows with the request's temperature; an
    optimizer's proposals differ between seeds at any temperature.
    """

    def __init__(self, seed: int = 0):
        self.seed = seed

    def complete(self, request: Request) -> Response:
        """Answer one request. Never fails on unknown fields: they get an empty value of the type asked for."""
        prompt = prompt_parser.parse_request(request)
        dice = SeededNoise(self.seed, request.config.temperature or 0.0)
        text = prompt_parser.format_response(prompt.layout, answer_prompt(prompt, dice))
        spoken, said = ceil(len(prompt.text) / CHARACTERS_PER_TOKEN), ceil(len(text) / CHARACTERS_PER_TOKEN)
        return Response(
            id=None,
            model="embedded/explorer",
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=spoken, output_tokens=said, total_tokens=spoken + said),
        )

    def stream(self, request: Request) -> Iterator[Any]:
        return iter(response_to_events(self.complete(request)))

    def close(self) -> None:
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Explorer":
        return self

    def dump_state(self) -> dict[str, Any]:
        return {"seed": self.seed}

    @classmethod
    def load_state(cls, state: Mapping[str, Any]) -> "Explorer":
        return cls(seed=int(state.get("seed", 0)))


def answer_prompt(prompt: prompt_parser.ParsedPrompt, dice: SeededNoise) -> Answer:
    """Answer a prompt: the fields that it asks for, in its order."""
    wanted = prompt.layout.wanted
    if not wanted:
        return {"text": rewrite_instruction(prompt, dice)}
    role = next((role for fields, role in ROLES if fields <= wanted.keys()), None)
    if role in (answer_flat_actor, answer_subgoal_actor):
        prompt = memory_writers.read_experience(prompt)
    given = role(prompt, dice) if role else {}
    return {name: given.get(name, _build_blank_value(kind, prompt)) for name, kind in wanted.items()}


def _build_blank_value(kind: str, prompt: prompt_parser.ParsedPrompt) -> Any:
    """A harmless value of the requested type; a text repeats the instruction's first line."""
    kind = kind.lower()
    for word, value in (("list", []), ("dict", {}), ("bool", False), ("int", 0), ("float", 0.0)):
        if kind.startswith(word):
            return value
    return prompt.instruction.split("\n", 1)[0][:200] or "none"
