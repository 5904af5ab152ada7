"""Further checks of a file that `load` accepts: possible scores, complete demonstrations, fitting versions."""

from dataclasses import dataclass
from importlib.metadata import version

from rsso_dspy.environments.benchmark import get_benchmark, list_benchmarks
from rsso_dspy.errors import NotInstalled
from rsso_dspy.optimize.compiled import Compiled
from rsso_dspy.optimize.prompt_texts import format_field_value
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol import hash_prompts, interface_of
from rsso_dspy.records import ZERO_SHOT

CHECKS = (
    "no instruction is empty",
    "demonstrations have the fields of their signature",
    "its scores are possible and its own",
    "it fits the versions installed here",
)
"""Names of the further checks."""


@dataclass(frozen=True, slots=True)
class ProgramCheck:
    """One check of a compiled file. It passes when there is no problem; a problem of None means that it could not be
    checked."""

    what: str
    problem: str | None = ""
    note: str = ""


def check_program(compiled: Compiled) -> tuple[ProgramCheck, ...]:
    """Run the `CHECKS` on a loaded program."""
    empty, demonstrations, scores, versions = CHECKS
    return (
        ProgramCheck(empty, _find_empty_instructions(compiled)),
        ProgramCheck(demonstrations, _find_unfit_demonstrations(compiled)),
        ProgramCheck(scores, _find_impossible_scores(compiled), _find_foreign_scores(compiled)),
        ProgramCheck(versions, _find_version_mismatch(compiled), _list_other_versions(compiled)),
    )


def _find_empty_instructions(compiled: Compiled) -> str:
    names = [name for name, state in compiled.chosen_state.items() if not state["signature"]["instructions"].strip()]
    return f"{', '.join(names)} has none; write one, or compile again" if names else ""


def _find_unfit_demonstrations(compiled: Compiled) -> str:
    """A demonstration shows an answer, so it needs every output field. Regions that were empty are left out of its
    inputs."""
    wrong = []
    for name, predictor in Agent(compiled.method).named_predictors():
        for number, demo in enumerate(compiled.chosen_state[name]["demos"], start=1):
            lacking = [
                field
                for field in predictor.signature.output_fields
                if not format_field_value(demo.get(field, "")).strip()
            ]
            if not demo.keys() & predictor.signature.input_fields.keys():
                lacking.append("any input")
            if lacking:
                wrong.append(f"demonstration {number} of {name} lacks {', '.join(lacking)}")
    return f"{'; '.join(wrong)}; take it out, or compile again" if wrong else ""


def _find_impossible_scores(compiled: Compiled) -> str:
    given = [scores for scores in (compiled.before, compiled.after, *(t.scores for t in compiled.tried)) if scores]
    metrics = [*(s.metric for s in given), *(value for t in compiled.tried for value in t.per_variant.values())]
    wrong = []
    if not all(0 <= metric <= 1 for metric in metrics) or not all(0 <= scores.mean <= 100 for scores in given):
        wrong.append("there is a metric outside of 0 to 1 or a Mean outside of 0 to 100")
    if strange := {key for tried in compiled.tried for key in tried.per_variant} - set(compiled.calibration):
        wrong.append(f"there are scores on variants that it was not compiled on: {', '.join(sorted(strange))}")
    own = [tried.scores for tried in compiled.tried if tried.program == compiled.chosen_program]
    if own and compiled.after not in own:
        wrong.append("`after` is not the score of its own program among those compared")
    return f"{'; '.join(wrong)}; restore the file, or compile again" if wrong else ""


def _find_foreign_scores(compiled: Compiled) -> str:
    """A note, not a problem, when the scores are another program's: somebody may edit a prompt and still want to play
    it."""
    if compiled.after is None or any(tried.program == compiled.chosen_program for tried in compiled.tried):
        return ""
    return "its program is none of those compared, as after an edit by hand: its scores are another program's"


def _find_version_mismatch(compiled: Compiled) -> str:
    if compiled.environment is None:
        return ""
    name, there = compiled.environment.name, compiled.environment.version
    here = _find_installed_version(name) or "not installed"
    if there == here:
        return ""
    return f"it was compiled in {name} {there}, which here is {here}; install that version, or compile again"


def _find_installed_version(benchmark: str) -> str:
    """Version of a benchmark; empty if the benchmark, or the extra that it needs, is not installed."""
    try:
        return get_benchmark(benchmark).version if benchmark in list_benchmarks() else ""
    except NotInstalled:
        return ""


def _list_other_versions(compiled: Compiled) -> str:
    """Versions that differ from the file's. They prevent nothing but may change results."""
    said = []
    if (dspy := compiled.versions.get("dspy")) not in (None, version("dspy")):
        said.append(f"compiled with dspy {dspy}, here is {version('dspy')}")
    if compiled.environment is not None and not _find_installed_version(compiled.environment.name):
        return "; ".join(said)
    protocol = compiled.identity.get("config", {}).get("protocol", {})
    now = hash_prompts(compiled.benchmark, interface_of(protocol))
    if compiled.identity.get("prompts", now) != now:
        said.append(f"the {ZERO_SHOT} prompts have changed since: `before` is not the score of those here")
    return "; ".join(said)
