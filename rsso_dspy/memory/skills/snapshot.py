"""A skill memory as JSON data and back.

    schema, settings    version and settings of the memory
    texts               every distinct observation, surroundings, inventory and action of the stored pieces
    pieces              trial, offset, number of the trajectory; states as [observation, look, inventory] and actions as
                        indices into ``texts``
    built               pieces matched so far
    similarities        count, sum and sum of squares of both similarities, in billionths
    pool                one row per candidate, most used first: score, state and action similarity in billionths, then
                        each window as piece, start, end
    selected            the skill set, best first: score terms, then as in the pool without the score
    skills              every skill ever verbalized, with its use; ``library`` lists those in use
    feedback, answers   feedback events per trial; equivalence questions already answered

Embeddings are recomputed on demand, so a restored memory continues byte for byte if ``embed`` maps equal texts to equal
rows.
"""

from collections.abc import Sequence
from dataclasses import asdict, astuple
from typing import Any

from rsso_dspy.errors import RunMismatch
from rsso_dspy.memory.skills.memory_state import SkillMemoryState
from rsso_dspy.memory.skills.score import RunningMoments, SimilarityMoments
from rsso_dspy.memory.skills.settings import FREE, SkillSettings, dump_settings
from rsso_dspy.memory.skills.skill import Piece, Skill, SkillCandidate, SkillScores, Span, Window
from rsso_dspy.records import State

SCHEMA = 1


def dump_snapshot(held: SkillMemoryState, settings: SkillSettings) -> dict[str, Any]:
    texts: dict[str, int] = {}
    pieces = [_dump_piece(piece, texts) for piece in held.pieces]
    return {
        "schema": SCHEMA,
        "settings": dump_settings(settings),
        "texts": list(texts),
        "pieces": pieces,
        "built": held.built,
        "similarities": {
            "state": list(astuple(held.similarities.state)),
            "action": list(astuple(held.similarities.action)),
        },
        "pool": [[score, *_dump_candidate(candidate)] for candidate, score in held.pool],
        "selected": [[asdict(scores), *_dump_candidate(candidate)] for candidate, scores in held.selected],
        "skills": [_dump_skill(skill) for skill in held.skills.values()],
        "library": list(held.library),
        "feedback": [[list(event) for event in trial] for trial in held.feedback],
        "answers": [[list(question), answer] for question, answer in held.answers.items()],
    }


def load_snapshot(data: dict[str, Any], settings: SkillSettings) -> SkillMemoryState:
    """Restore a memory. Raises ``RunMismatch`` for another schema or other settings."""
    _check_settings(data, settings)
    pieces = [_load_piece(entry, data["texts"]) for entry in data["pieces"]]
    moments = data["similarities"]
    return SkillMemoryState(
        pieces=pieces,
        built=data["built"],
        similarities=SimilarityMoments(RunningMoments(*moments["state"]), RunningMoments(*moments["action"])),
        pool=[(_load_candidate(row), score) for score, *row in data["pool"]],
        selected=[(_load_candidate(row), SkillScores(**scores)) for scores, *row in data["selected"]],
        skills={entry["id"]: _load_skill(entry, pieces) for entry in data["skills"]},
        library=list(data["library"]),
        feedback=[[(name, gain, followed) for name, gain, followed in trial] for trial in data["feedback"]],
        answers={tuple(question): answer for question, answer in data["answers"]},
    )


def _check_settings(data: dict[str, Any], settings: SkillSettings) -> None:
    if data["schema"] != SCHEMA:
        raise RunMismatch(
            f"this skill memory has schema {data['schema']}, but this program reads schema {SCHEMA}; "
            "restore it with the version of rsso-dspy that stored it"
        )
    now, then = asdict(settings), data["settings"]
    differing = [name for name in now if name not in FREE and then[name] != now[name]]
    if differing:
        changes = ", ".join(f"{name} {then[name]!r} (now {now[name]!r})" for name in differing)
        raise RunMismatch(f"this skill memory has other settings: {changes}; restore these settings or start a new run")


def _dump_piece(piece: Piece, texts: dict[str, int]) -> dict[str, Any]:
    def intern_text(text: str) -> int:
        return texts.setdefault(text, len(texts))

    return {
        "trial": piece.trial,
        "offset": piece.offset,
        "trajectory": piece.trajectory,
        "states": [
            [intern_text(state.observation), intern_text(state.look), intern_text(state.inventory)]
            for state in piece.states
        ],
        "actions": [intern_text(action) for action in piece.actions],
        "rewards": list(piece.rewards),
    }


def _load_piece(entry: dict[str, Any], texts: Sequence[str]) -> Piece:
    return Piece(
        trial=entry["trial"],
        offset=entry["offset"],
        states=tuple(State(*(texts[index] for index in state)) for state in entry["states"]),
        actions=tuple(texts[index] for index in entry["actions"]),
        rewards=tuple(entry["rewards"]),
        trajectory=entry["trajectory"],
    )


def _dump_candidate(candidate: SkillCandidate) -> list[int]:
    return [candidate.state, candidate.action, *(number for span in candidate.spans for number in span)]


def _load_candidate(row: Sequence[int]) -> SkillCandidate:
    state, action, *numbers = row
    return SkillCandidate(tuple(Span(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)), state, action)


def _dump_skill(skill: Skill) -> dict[str, Any]:
    return {
        "id": skill.id,
        "name": skill.name,
        "summary": skill.summary,
        "instructions": list(skill.instructions),
        "target": skill.target,
        "windows": [list(window.span) for window in skill.windows],
        "scores": asdict(skill.scores),
        "retrieved": skill.retrieved,
        "targeted": skill.targeted,
        **({"beyond": skill.beyond} if skill.beyond else {}),
    }


def _load_skill(entry: dict[str, Any], pieces: Sequence[Piece]) -> Skill:
    spans = [Span(*numbers) for numbers in entry["windows"]]
    return Skill(
        id=entry["id"],
        summary=entry["summary"],
        name=entry["name"],
        instructions=tuple(entry["instructions"]),
        target=entry["target"],
        windows=tuple(Window.from_span(span, pieces[span.piece]) for span in spans),
        scores=SkillScores(**entry["scores"]),
        retrieved=entry["retrieved"],
        targeted=entry["targeted"],
        beyond=entry.get("beyond", 0),
    )
