"""Maps the names that models write to output fields."""

import re
from collections.abc import Mapping
from typing import Any

import dspy

FAMILIES = (
    "thought thoughts think thinking reasoning reason rationale analysis mythought myreasoning gedanke pensamiento "
    "razonamiento pensée pensee réflexion raisonnement pensiero 思考 想法 推理 理由",
    "action nextaction actions act command nextcommand nextmove bestaction chosenaction finalaction selectedaction "
    "aktion nächsteaktion acción accion próximaacción siguienteacción prochaineaction azione 行动 动作 下一步行动 操作",
    "currentsubgoal subgoal currentgoal chosensubgoal selectedsubgoal teilziel submeta 子目标 当前子目标",
    "summary skillsummary description",
    "skillname nameoftheskill skill name",
    "steps instructions step",
    "target targetstate goal",
    "equivalent equivalents equivalentskills equivalentto matches",
    "whatwentwrong mistakes mistake problems",
    "plan newplan nextplan revisedplan planfornextattempt plannextattempt",
    "abstractrules abstractrule generalrules abstract",
    "errorrules errorrule errors mistakes",
    "progressrules progressrule progress",
)
"""Names that models use as synonyms, normalized."""

REASONING = frozenset(FAMILIES[0].split())

SPARED = {"thought": "", "reasoning": "", "current_subgoal": "none", "what_went_wrong": ""}
"""Output fields that an answer may omit, with their default: an omission that does not change the action should not
cost the answer."""

PROSE = frozenset({"plan"})
"""Output fields that a text without any form may be, if no other field is required."""

TURNS = "observation observations obs environment env result user human assistant system feedback response completed"
ENVIRONMENT = frozenset([*TURNS.split(), "gameresponse", "output", "score", "reward", "观察", "观察结果"])
"""Names that end an answer: after them the model plays the other side's part."""


def normalize_field_name(name: str) -> str:
    """Return the name in lower case without spaces, underscores, hyphens, final number and `my` (`My thought 1`)."""
    return re.sub(r"^my\s+|[\W_]+|\d+\s*$", "", name.lower())


def strip_sentence(word: str) -> str:
    """Strip the words that make a name a sentence (`The target state is`), a header used when there is one field."""
    return re.sub(r"^the(?=.)|(?<=.)is$", "", word)


def map_names_to_fields(signature: type[dspy.Signature]) -> dict[str, str]:
    """Map normalized names to output fields: each field's own name, and its synonyms unless two fields share them."""
    own = {normalize_field_name(name): name for name in signature.output_fields}
    found = dict(own)
    for family in map(str.split, FAMILIES):
        meant = [own[word] for word in family if word in own]
        if len(meant) == 1:
            for word in family:
                found.setdefault(word, meant[0])
    return found


def select_known_fields(said: Mapping[Any, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """Select the entries that name output fields; a field's own name takes precedence over its synonyms. In an object,
    `error` also names `error_rules`; before a text it would be the name of a single rule."""
    found: dict[str, Any] = {}
    for key, value in sorted(
        said.items(),
        key=lambda item: normalize_field_name(str(item[0])) not in map(normalize_field_name, known.values()),
    ):
        word = normalize_field_name(str(key))
        name = known.get(word) or known.get(f"{word}rules")
        if name is not None:
            found.setdefault(name, value)
    return found
