"""The offline player: a rule-based stand-in for a language model, so that everything runs without a key.

    lm = dspy.LM("embedded/explorer", engine=Explorer(seed=0), cache=False, temperature=0.7)

It reads only the prompt, in the form of this package's adapters, of `dspy.ChatAdapter` or of `dspy.JSONAdapter`. A role
is recognised by the output fields that the adapter lists, never by the words of an instruction; what the actor's
instruction says is advice. It knows how to play ScienceWorld; elsewhere it picks among the offered actions. It uses no
tools and runs no code. Its scores say nothing about language models.
"""

from typing import Any

from dspy.lm15 import Message, Request, Response, TextPart, Usage

from rsso_dspy.offline import actor, marked, proposer, reflector, writers
from rsso_dspy.offline.prompt import SeededNoise, format_response, parse_request
from rsso_dspy.records import estimate_tokens

__all__ = ["Explorer"]

ROLES = {
    "action": actor.answer_actor,
    "plan": reflector.write_reflection,
    "strategy": reflector.distill_plans,
    **dict.fromkeys(("skill_name", "steps", "target"), writers.describe_skill),
    "equivalent": writers.list_equivalent_skills,
    **dict.fromkeys(("abstract_rules", "error_rules", "progress_rules"), writers.write_or_merge_rules),
    **dict.fromkeys(
        ("insight_edits", "workflows", "strategies", "new_bullets", "new_cheatsheet"), writers.write_entries
    ),
    **dict.fromkeys(("new_instruction", "proposed_instruction"), proposer.propose_instruction),
    "generated_code": marked.finish_at_once,
}
"""Output field to the role that it identifies; the first that is asked for counts."""


class Explorer:
    """The same request and seed give the same bytes in every process. The seed stands for the sampling of a language
    model: its effect grows with the request's temperature; an optimizer's proposals differ between seeds at any
    temperature. The engine holds nothing else, so one object serves many threads."""

    def __init__(self, seed: int = 0):
        self.seed = seed

    def complete(self, request: Request) -> Response:
        """Answer one request. Never fails on unknown fields: they get an empty value of the type asked for."""
        prompt = parse_request(request)
        outputs = prompt.wanted or {"text": False}
        role = next((role for field, role in ROLES.items() if field in outputs), None)
        fields = role(prompt, SeededNoise(self.seed, request.config.temperature or 0.0)) if role else {}
        blank = prompt.instruction.split("\n", 1)[0][:200] or "none"
        blanks = {name: [] if is_list else prompt.blanks.get(name, blank) for name, is_list in outputs.items()}
        answer = {name: fields.get(name, empty) for name, empty in blanks.items()}
        text = format_response(prompt, answer)

        input_tokens = estimate_tokens(prompt.text)
        output_tokens = estimate_tokens(text)
        return Response(
            id=None,
            model="embedded/explorer",
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(
                input_tokens=input_tokens, output_tokens=output_tokens, total_tokens=input_tokens + output_tokens
            ),
        )

    def close(self) -> None:
        """Nothing to close."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Explorer":
        return self
