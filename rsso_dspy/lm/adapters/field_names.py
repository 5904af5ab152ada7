"""Which output field a model means by a name."""

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
"""Names that models use for one another, in plain form."""

REASONING = frozenset(FAMILIES[0].split())

SPARED = {"thought": "", "reasoning": "", "current_subgoal": "none", "what_went_wrong": ""}
"""Output fields that an answer may do without, and what they are then: an omission that changes nothing of what is done
costs no answer."""

PROSE = frozenset({"plan"})
"""Output fields that a text without any form is taken for, where no other has to be there."""

TURNS = "observation observations obs environment env result user human assistant system feedback response completed"
ENVIRONMENT = frozenset([*TURNS.split(), "gameresponse", "output", "score", "reward", "观察", "观察结果"])
"""Names that end an answer: what follows is the other side's part, played by the model."""


def normalize_field_name(name: str) -> str:
    """The name without case, spaces, underscores, hyphens, a number at its end and whose it is (`My thought 1`)."""
    return re.sub(r"^my\s+|[\W_]+|\d+\s*$", "", name.lower())


def strip_sentence(word: str) -> str:
    """A plain name less what makes a sentence of it (`The target state is`): a header where there is one field only."""
    return re.sub(r"^the(?=.)|(?<=.)is$", "", word)


def map_names_to_fields(signature: type[dspy.Signature]) -> dict[str, str]:
    """Plain name to output field: each field's own, and those of its family where no other field shares it."""
    own = {normalize_field_name(name): name for name in signature.output_fields}
    found = dict(own)
    for family in map(str.split, FAMILIES):
        meant = [own[word] for word in family if word in own]
        if len(meant) == 1:
            for word in family:
                found.setdefault(word, meant[0])
    return found


def select_known_fields(said: Mapping[Any, Any], known: Mapping[str, str]) -> dict[str, Any]:
    """The entries that name output fields; a field's own name goes before its relatives'. Of `error_rules`, `error` is
    one here: ahead of a text it would be the name of one rule."""
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
