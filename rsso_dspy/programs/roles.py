"""What an agent lends its memories (`Roles`), the signature of its actor, and methods from outside the package."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import dspy

from rsso_dspy.environments import Environment, get_place_reader, list_verbs
from rsso_dspy.errors import UsageError
from rsso_dspy.memory import Recall
from rsso_dspy.playing import playing
from rsso_dspy.programs.actor import SCAFFOLDS, Answer, add_regions, read_answer
from rsso_dspy.programs.methods import MODULES, Method, load_memory
from rsso_dspy.programs.role_calls import RoleCalls
from rsso_dspy.programs.runtime import Runtime
from rsso_dspy.programs.transcript import Render, describe_outcome, render_transcript
from rsso_dspy.records import Trajectory
from rsso_dspy.regions import REGIONS


class Roles:
    """The modules of an agent, asked by its loop and its memories: the `Services` of these. Local to one
    `Agent.forward`."""

    def __init__(self, modules: Mapping[str, dspy.Module], method: Method, runtime: Runtime):
        self.modules = modules
        self.method = method
        self.runtime = runtime
        self.handed_on = frozenset(load_memory(name).region for name in method.streamed)
        self.call: RoleCalls
        self.environment: Environment

    def act(self, recalled: Sequence[Recall], **regions: str) -> Answer | None:
        """The actor's next answer; None when it was malformed. `regions` are the actor's input fields by name."""
        with playing(verbs=list_verbs(self.environment)):
            prediction = self.ask("actor", action_templates=self.environment.action_templates, **regions)
        if prediction is None:
            return None
        answer = read_answer(
            prediction, self.method.scaffold, [target for recall in recalled for target in recall.targets]
        )
        if not answer.action:
            self.call.ledger.count_malformed("actor", _said(prediction))
            return None
        return answer

    def ask(self, name: str, method: str = "", /, **inputs: Any) -> dspy.Prediction | None:
        """What a module, or a method of it, answers; None when the answer was malformed."""
        if name not in self.modules and name not in STOCK:
            raise UsageError(
                f"a memory of {self.method.name} asks for the {name}, which this method has not: name it in the class "
                f"of the memory, asks = ({name!r},)"
            )
        module = self.modules.get(name) or _get_stock_module(name)
        role = "actor" if name == "actor" else MODULES[name].role
        return self.call.ask(role, module, getattr(module, method) if method else module, **inputs)

    def reject(self, name: str, said: dspy.Prediction) -> None:
        """Count an answer of a module that could be read and is of no use."""
        self.call.ledger.count_malformed(MODULES[name].role, _said(said))

    def tell_transcript(self, trajectory: Trajectory) -> str:
        """Every action of an attempt, numbered, with what was seen after it."""
        return render_transcript(trajectory, self.renderer)

    def tell_outcome(self, trajectory: Trajectory) -> str:
        """How an attempt ended and what its steps earned."""
        from rsso_dspy.programs.outcome import tell_outcome

        return tell_outcome(trajectory) if self.complete else describe_outcome(trajectory)

    def list_reflection_fields(self, improvements: frozenset[str], trajectory: Trajectory) -> dict[str, Any]:
        """What a call of the reflector is told besides, for these improvements: a signature with their fields, and the
        loops. Empty without them, so that the prompt stays what it was.

        Raises `UsageError` when the reflector was replaced by a module that lacks the fields and cannot be given them.
        """
        from rsso_dspy.loops import describe_loops
        from rsso_dspy.signatures.reflection import ADDED_INPUTS, ADDED_OUTPUTS, LOOPS, add_reflection_fields

        asked, module = improvements & (ADDED_INPUTS.keys() | ADDED_OUTPUTS.keys()), self.modules["reflector"]
        if not asked:
            return {}
        place_reader = get_place_reader(self.environment)
        told: dict[str, Any] = {LOOPS: describe_loops(trajectory.steps, place_reader)} if "loops" in asked else {}
        if isinstance(module, dspy.Predict):
            return {**told, "signature": add_reflection_fields(module.signature, asked)}
        for predictor in module.predictors():
            if add_reflection_fields(predictor.signature, asked) is predictor.signature:
                return told
        fields = [
            name for each in sorted(asked) for name in (*ADDED_INPUTS.get(each, ()), *ADDED_OUTPUTS.get(each, ()))
        ]
        raise UsageError(
            f"this {type(module).__name__} cannot be the reflector of {', '.join(sorted(asked))}: its signature lacks "
            f"{', '.join(fields)}; add them to the signature, or use dspy.Predict"
        )

    @property
    def complete(self) -> bool:
        """Whether roles are shown all that is in sight."""
        return self.runtime.rules.interface == "complete"

    @property
    def renderer(self) -> Render | None:
        """How what was in sight is shown to other roles than the actor; None where they are not to see it."""
        return self.environment.render if self.complete else None


STOCK = ("reflection_distiller",)
"""Modules that a configuration asks for, not a row: an agent that has none of its own is played with the package's.
One that is to be compiled is named in the row (`reflexion-hierarchical`)."""


@lru_cache(maxsize=8)
def _get_stock_module(name: str) -> dspy.Module:
    """The package's own module, shared by all agents that have none of this name."""
    return MODULES[name].make()


def _said(prediction: dspy.Prediction) -> str:
    return "\n".join(
        f"{name}: {value}" for name, value in prediction.items() if value and isinstance(value, str | list)
    )


def check_replacement(name: str, before: dspy.Module, module: dspy.Module) -> None:
    """Raise `UsageError` when a module cannot stand in for the one that is there: an input that it does not take would
    keep a memory out of the prompt without a word."""
    missing_inputs = _collect_fields(before, "input_fields") - _collect_fields(module, "input_fields")
    missing_outputs = _collect_fields(before, "output_fields") - _collect_fields(module, "output_fields") - _SPARED
    if missing_inputs or missing_outputs:
        lacks = [f"the inputs {', '.join(sorted(missing_inputs))}"] if missing_inputs else []
        lacks += [f"the outputs {', '.join(sorted(missing_outputs))}"] if missing_outputs else []
        raise UsageError(
            f"this {type(module).__name__} cannot be the {name}: its signature lacks {' and '.join(lacks)}; "
            "add them to the signature, which may have more"
        )


_SPARED = {"thought", "reasoning"}
"""Outputs that are shown and decide nothing."""


def _collect_fields(module: dspy.Module, kind: str) -> set[str]:
    return {name for predictor in module.predictors() for name in getattr(predictor.signature, kind)}


def list_regions(row: Method) -> tuple[tuple[str, str], ...]:
    """Regions that an actor of the method has beside those of its scaffold, name and description: those of its
    memories in the order of the table of regions, then those that memories of other packages describe. Raises
    `UsageError` where two memories fill one region."""
    filled: dict[str, str] = {}
    memories = {name: load_memory(name) for name in row.memories}
    for name, memory in memories.items():
        if other := filled.get(memory.region):
            raise UsageError(f"{row.name}: {other} and {name} both fill the region {memory.region}; drop one of them")
        filled[memory.region] = name
    scaffold = SCAFFOLDS[row.scaffold].input_fields
    added = [(each.name, each.description) for each in REGIONS.values() if each.name in filled.keys() - scaffold.keys()]
    own = [(memory.region, memory.about) for memory in memories.values() if memory.region not in REGIONS]
    return (*added, *own)


def actor_signature(row: Method) -> type[dspy.Signature]:
    """The signature of the method's actor: its scaffold's, with the regions of its memories before the history."""
    return add_regions(SCAFFOLDS[row.scaffold], list_regions(row))
