"""Skill memories outside of a unit: as a file with its provenance, as a folder of the Agent Skills format, without a
language model, and the history of each skill.

    memory = load_library("boil.json", embed)
    memory.rank_skills(state)       # retrieves like the exported memory, with similarities

    kind, schema     what the file is
    provenance       protocol, method, model, rule_based, embedder, variants, seed, trials
    memory           the snapshot, see `memory.py`; includes the settings but no embeddings

Plain JSON: a foreign file can only put words into prompts.
"""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NoReturn

from rsso_dspy.errors import DamagedFile, RunMismatch, UsageError
from rsso_dspy.files import read_json
from rsso_dspy.memory import Embed
from rsso_dspy.memory.skills.memory import (
    Equivalent,
    SkillMemory,
    SkillMemoryState,
    Verbalize,
    parse_skill_snapshot,
)
from rsso_dspy.memory.skills.retrieve import find_pursued_skill
from rsso_dspy.memory.skills.skill import Piece, Skill, SkillCandidate, SkillSettings, Verbalization, Window
from rsso_dspy.records import SOLVED_SCORE, State, Step, Trajectory, Variant

KIND = "rsso-dspy skill library"

SCHEMA = 1
"""Schema version of the file; others are refused."""


@dataclass(frozen=True, slots=True)
class SkillLibraryFile:
    """The content of one file."""

    provenance: dict[str, Any]
    snapshot: dict[str, Any]

    def to_json(self) -> str:
        data = {"kind": KIND, "schema": SCHEMA, "provenance": self.provenance, "memory": self.snapshot}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def read_library(path: Path | str) -> SkillLibraryFile:
    """Read a file. Raises `UsageError` if it is absent, damaged, or of another kind or schema."""
    try:
        data = read_json(Path(path))
    except OSError as error:
        raise UsageError(f"cannot read the skill library {path}: {error.strerror}") from None
    except DamagedFile as error:
        raise UsageError(f"{path} is damaged ({error.why}); export it again") from None
    if not isinstance(data, dict) or data.get("kind") != KIND:
        raise UsageError(
            f"{path} is not a skill library; `rsso-dspy skills export RUN TASK::VARIANT -o FILE` makes one"
        )
    if data.get("schema") != SCHEMA:
        raise UsageError(
            f"{path} has schema {data.get('schema')}, but this program reads schema {SCHEMA}; "
            "use the version of rsso-dspy that wrote it, or export it again"
        )
    if not isinstance(data.get("provenance"), dict) or not isinstance(data.get("memory"), dict):
        raise UsageError(f"{path} is damaged (provenance or memory is missing); export it again")
    return SkillLibraryFile(data["provenance"], data["memory"])


def load_library(
    path: Path | str,
    embed: Embed,
    settings: SkillSettings | None = None,
    *,
    embedder: str | None = None,
    verbalize: Verbalize | None = None,
    equivalent: Equivalent | None = None,
) -> SkillMemory:
    """Load the memory in a file; it retrieves like the exported one, byte for byte.

    ``embed`` must be the embedder that the library was learned with; pass its name as ``embedder`` to check that.
    Raises `RunMismatch` for another embedder or for ``settings`` other than the file's (the default), and what
    `read_library` raises. Without ``verbalize`` and ``equivalent`` the memory is read-only: learning a skill raises
    `UsageError`.
    """
    library = read_library(path)
    _, stored = parse_skill_snapshot(library.snapshot, str(path))
    learnt_with = library.provenance.get("embedder")
    if embedder is not None and learnt_with is not None and embedder != learnt_with:
        raise RunMismatch(
            f"{path} was learned with the embedder {learnt_with}, not {embedder}: similarities would not be "
            f"comparable; use embedder.model={learnt_with}"
        )
    memory = SkillMemory(embed, verbalize or _refuse_learning, equivalent or _refuse_learning, settings or stored)
    try:
        memory.restore(library.snapshot)
    except RunMismatch as error:
        raise RunMismatch(f"{path}: {error}") from None
    return memory


def _refuse_learning(*_: Any) -> NoReturn:
    raise UsageError(
        "this skill library is read-only; pass `verbalize` and `equivalent` to load_library to learn with it"
    )


def summarize_skill_usage(held: SkillMemoryState, trajectories: Sequence[Trajectory]) -> list[dict[str, Any]]:
    """The history of every skill ever verbalized, as JSON data: the library first, best first, then the others, oldest
    first. Steps of trials are counted from 1.

    Use is counted in ``trajectories``, because a skill's own counters lack trials that the memory did not learn from,
    such as a unit's last one: ``retrieved`` steps had the skill in the prompt, ``targeted`` steps pursued it.
    """
    order = [*held.library, *(name for name in held.skills if name not in held.library)]
    return [_summarize_skill(held.skills[name], held, trajectories) for name in order]


def _summarize_skill(skill: Skill, held: SkillMemoryState, trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    pursuits = []
    for trajectory in trajectories:
        steps = trajectory.steps
        if at := [place for place, step in enumerate(steps) if find_pursued_skill(step, held.skills) == skill.id]:
            gained = sum(step.reward for step in steps[at[0] :] if step.reward > 0)
            found = {"trial": trajectory.trial, "first": at[0] + 1, "steps": len(at), "gained": gained}
            pursuits.append({**found, "outcome": trajectory.outcome})
    return {
        **{name: getattr(skill, name) for name in ("id", "name", "summary", "target")},
        "instructions": list(skill.instructions),
        "in_use": skill.id in held.library,
        "scores": asdict(skill.scores),
        "examples": [_describe_example(window, held.pieces[window.piece]) for window in skill.windows],
        "retrieved": sum(skill.id in step.recalled for trajectory in trajectories for step in trajectory.steps),
        "targeted": sum(pursuit["steps"] for pursuit in pursuits),
        "pursuits": pursuits,
    }


def _describe_example(window: Window, piece: Piece) -> dict[str, Any]:
    """A window in steps. Step i leads to state i, so a window's first action is the step after its start."""
    before = piece.offset + window.start
    where = {"trial": piece.trial, "first": before + 1, "last": before + len(window.actions)}
    return {**where, "actions": window.actions, "points": window.rewards[1:]}


# A folder of the Agent Skills format: SKILL.md, with target and instructions of every skill, and the whole library.

SKILL_FILE = "SKILL.md"
LIBRARY_FILE = "references/library.json"

LONGEST_NAME, LONGEST_DESCRIPTION, MOST_LINES = 64, 1024, 500
"""Limits of the format: characters of a name and of a description, lines of a body."""


def render_skill_folder(library: SkillLibraryFile, name: str, score: float | None = None) -> dict[str, str]:
    """The files of the folder `name`: path to text. Raises `UsageError` for a name or size that the format forbids."""
    if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"{name!r} cannot name an Agent Skill: lower-case letters, digits and single hyphens, at most "
            f"{LONGEST_NAME} characters"
        )
    state, _ = parse_skill_snapshot(library.snapshot, "the library")
    about = library.provenance
    variants = [str(key) for key in about.get("variants", ())]
    tasks = ", ".join(dict.fromkeys(key.partition("::")[0] for key in variants)) or "tasks of a text game"
    metadata = {
        "protocol": str(about.get("protocol", "")),
        "score": "" if score is None else f"{score:g}",
        "commit": str((about.get("made_by") or {}).get("commit", "")),
        "learned-on": " ".join(variants)[:LONGEST_DESCRIPTION],
        "model": str(about.get("model", "")),
    }
    description = f"How subgoals of these tasks were reached before: {tasks}. Use it when the task is like one of them."
    front = ["---", f"name: {_quote(name)}", f"description: {_quote(_clean(description)[:LONGEST_DESCRIPTION])}"]
    front += ["metadata:", *(f"  {key}: {_quote(_clean(value))}" for key, value in metadata.items() if value), "---"]
    body = [
        "# Skills",
        "",
        "Pursue a skill when its target is what is needed next. Each was at work in two trials.",
        "",
    ]
    for skill in (state.skills[name] for name in state.library):
        body += [f"## {_clean(skill.name)}", "", f"Target: {_clean(skill.target)}", ""]
        body += [*(f"{number}. {_clean(step)}" for number, step in enumerate(skill.instructions, start=1)), ""]
    if len(body) > MOST_LINES:
        raise UsageError(f"the skills take {len(body)} lines, but a SKILL.md has at most {MOST_LINES}")
    return {SKILL_FILE: "\n".join([*front, "", *body]), LIBRARY_FILE: library.to_json()}


def _quote(value: str) -> str:
    plain = re.fullmatch(r"[a-z][a-z0-9-]*", value) and value not in ("true", "false", "null", "yes", "no", "on", "off")
    return value if plain else json.dumps(value, ensure_ascii=False)


def _clean(text: str) -> str:
    """One line, without the mark of a front matter."""
    return re.sub(r"-{3,}", "--", " ".join(text.split()))


# A memory without a language model, on any trajectories, to study extraction alone. A trajectory is a list of states,
# ``{"description": text, "action": text, "reward": share of 1}``: the whole state as one text, the action before it and
# its reward in hundredths; the first state has neither. The format, and the names in `serialize_update`, equal
# those of ``sso_golden.json``, results of the published SSO code, so that both can be compared field by field.

GIVEN = Variant("given", 0)
"""Unknown origin of trajectories that no run recorded."""


def create_offline_memory(embed: Embed, settings: SkillSettings) -> SkillMemory:
    """Create a memory that verbalizes by `verbalize_by_actions`; only skills with equal words are equivalent."""
    return SkillMemory(embed, verbalize_by_actions, lambda _new, _library: False, settings)


def verbalize_by_actions(examples: Sequence[Window]) -> Verbalization:
    """Describe a skill by the aligned actions of its examples. The same examples give the same words."""

    def join(texts: Iterable[str]) -> str:
        return " or ".join(dict.fromkeys(filter(None, texts)))

    def see(place: int) -> str:
        states = [window.states[place] for window in examples]
        return join(" ".join((state.observation.strip() or state.description).split()) for state in states)

    steps = [join(actions) or "(nothing)" for actions in zip(*(each.actions for each in examples), strict=True)]
    end = see(-1) or "(nothing to be seen)"
    return Verbalization(f"from {see(0)!r} to {end!r}", steps[-1], tuple(steps), end)


def serialize_update(held: SkillMemoryState) -> dict[str, Any]:
    """Return the last update as JSON data: lengths of pieces, candidates, pool and skill set.

    A window is [piece, start, end).
    """

    def dump(item: SkillCandidate, **more: float) -> dict[str, Any]:
        return {"windows": [list(span) for span in item.spans], **more}

    return {
        "pieces": [len(piece) for piece in held.pieces],
        "candidates": [
            dump(each, state_similarity=each.state_similarity, action_similarity=each.action_similarity)
            for each in held.candidates
        ],
        "pool": [dump(item, score=score) for item, score in held.pool],
        "selected": [dump(item, score=scores.total) for item, scores in held.selected],
    }


def parse_trajectories(data: Any) -> list[Trajectory]:
    """Parse lists of states into trajectories, trials counted from 1. Raises `UsageError` naming the first fault."""
    if not isinstance(data, list) or not data:
        raise UsageError("no trajectories: expected a list of them, each a list of states")
    return [_parse_trajectory(states, trial) for trial, states in enumerate(data, start=1)]


def _parse_trajectory(states: Any, trial: int) -> Trajectory:
    if not isinstance(states, list) or not states:
        raise UsageError(f"trajectory {trial} is not a list of states")
    read = [_parse_state(state, f"trajectory {trial}, state {index}", index == 0) for index, state in enumerate(states)]
    score, steps = 0, []
    for description, action, points in read[1:]:
        score += points
        steps.append(Step(action, action, State(description, "", ""), points, score, understood=True))
    start = State(read[0][0], "", "")
    return Trajectory(GIVEN, trial, "", start, 0, tuple(steps), "solved" if score >= SOLVED_SCORE else "budget")


def _parse_state(state: Any, where: str, first: bool) -> tuple[str, str, int]:
    """Description, action before it and points of 100."""
    if not isinstance(state, dict) or not isinstance(state.get("description"), str):
        raise UsageError(f"{where}: expected an object with the text `description`, `action` and `reward`")
    action, reward = state.get("action"), state.get("reward", 0.0)
    if first:
        if action or reward:
            raise UsageError(f"{where} is the start of the trial, without action and reward; make both null")
        return state["description"], "", 0
    if not isinstance(action, str):
        raise UsageError(f"{where}: `action` is {action!r}; expected the action before this state")
    number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if not number or not -1 <= reward <= 1 or abs(round(100 * reward) - 100 * reward) > 1e-6:
        raise UsageError(f"{where}: `reward` is {reward!r}; expected a share of 1 in whole hundredths, e.g. 0.08")
    return state["description"], action, round(100 * reward)
