"""Retrieval of skills whose examples began in a similar state (paper, Algorithm 1; release, skillset.py:140-161), their
text in the prompt, and which of them a step pursued.

A memory meets the same few hundred texts repeatedly, so each one is embedded once and referred to by its index.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rsso_dspy.errors import BackendFailure
from rsso_dspy.memory import BILLION, Embed, Recall
from rsso_dspy.memory.skills.skill import Skill, SkillSettings
from rsso_dspy.records import State, Step

Integers = NDArray[np.int64]

PUNCTUATION = ".,!?\"')(}{][:;"
FILL_WORDS = frozenset({"to", "the", "for", "on", "in", "a", "an"})


def normalize_text(text: str, keep_fill_words: bool = False) -> str:
    """Normalize a text for comparison: lower case, without punctuation and fill words (release, utils.py:12-20)."""
    words = (word.strip(PUNCTUATION) for word in text.lower().split())
    return " ".join(word for word in words if word and (keep_fill_words or word not in FILL_WORDS))


def get_embedding_text(state: State, settings: SkillSettings) -> str:
    return state.inventory_first if settings.inventory_first else state.description


class TextIndex:
    """A growing table of distinct texts."""

    def __init__(self, embed: Embed):
        self._embed = embed
        self._index: dict[str, int] = {}
        self._meaning: dict[str, int] = {}
        self._meanings: list[int] = []
        self._rows: list[NDArray[np.float64]] = []

    def index_texts(self, texts: Iterable[str]) -> Integers:
        """Return the index of each text; new texts are embedded in one call."""
        wanted = list(texts)
        new = [text for text in dict.fromkeys(wanted) if text not in self._index]
        if new:
            rows = np.asarray(self._embed(new), dtype=np.float64)
            if rows.ndim != 2 or len(rows) != len(new) or not np.isfinite(rows).all():
                raise BackendFailure(
                    f"the embedder answered {len(new)} texts with an array of shape {rows.shape}; expected "
                    f"({len(new)}, d) finite numbers. Check the backend of `embed`."
                )
            for text, row in zip(new, rows, strict=True):
                self._index[text] = len(self._rows)
                self._rows.append(row)
                self._meanings.append(self._meaning.setdefault(normalize_text(text), len(self._meaning)))
        return np.array([self._index[text] for text in wanted], dtype=np.int64)

    def compute_similarities(self, left: Integers, right: Integers) -> Integers:
        """Return (len(left), len(right)) cosines in billionths; texts that are equal after normalization count as 1."""
        rows, row = np.unique(left, return_inverse=True)
        columns, column = np.unique(right, return_inverse=True)
        cosines = self._stack_embeddings(rows) @ self._stack_embeddings(columns).T
        billionths = np.rint(cosines * BILLION).astype(np.int64)
        same = self._get_normalized_indices(rows)[:, None] == self._get_normalized_indices(columns)[None, :]
        return np.where(same, BILLION, billionths)[row[:, None], column[None, :]]

    def _stack_embeddings(self, indices: Integers) -> NDArray[np.float64]:
        return np.stack([self._rows[index] for index in indices])

    def _get_normalized_indices(self, indices: Integers) -> Integers:
        return np.array([self._meanings[index] for index in indices], dtype=np.int64)


def rank_by_similarity(
    library: Sequence[Skill], state: State, texts: TextIndex, settings: SkillSettings
) -> list[tuple[Skill, int]]:
    """Rank all skills by similarity to ``state``, best first, equals in library order.

    The similarity is the mean cosine between the state and the first state of each window, in billionths.
    """
    if not library:
        return []
    here = texts.index_texts([get_embedding_text(state, settings)])
    starts = texts.index_texts(
        get_embedding_text(window.states[0], settings) for skill in library for window in skill.windows
    )
    cosines = iter(texts.compute_similarities(starts, here)[:, 0].tolist())
    means = [sum(next(cosines) for _ in skill.windows) // len(skill.windows) for skill in library]
    return sorted(zip(library, means, strict=True), key=lambda pair: -pair[1])


def render_skills(skills: Sequence[Skill]) -> Recall:
    """Render the region: each target as a numbered subgoal with its numbered instructions."""
    items = tuple(
        "\n".join(
            [f"Subgoal {number}: {skill.target}", *(f"{i}. {text}" for i, text in enumerate(skill.instructions, 1))]
        )
        for number, skill in enumerate(skills, start=1)
    )
    return Recall("", tuple(skill.id for skill in skills), tuple(skill.target for skill in skills), items=items)


def find_pursued_skill(step: Step, skills: Mapping[str, Skill]) -> str | None:
    """Return the id of the shown skill whose target the actor named as its subgoal."""
    wanted = normalize_text(step.subgoal or "", keep_fill_words=True)
    shown = (name for name in step.recalled if name in skills)
    return next((name for name in shown if wanted and normalize_text(skills[name].target, True) == wanted), None)


LATELY = 10
"""Number of steps for which a completed skill is not offered again."""


def just_reached(steps: Sequence[Step], skills: Mapping[str, Skill]) -> frozenset[str]:
    """Return the ids of skills completed in the last steps.

    A skill is complete if points were gained while pursuing it (unless its words go beyond its examples), or if as many
    steps pursued it as it has instructions and the last step follows the last instruction.
    """
    lately = steps[-LATELY:]
    reached = set()
    for place, step in enumerate(lately):
        name = find_pursued_skill(step, skills)
        if name is None or not step.understood or step.asked_back or step.no_effect:
            continue
        instructions = skills[name].instructions
        so_far = sum(find_pursued_skill(earlier, skills) == name for earlier in lately[: place + 1])
        if (step.reward > 0 and not skills[name].beyond) or (
            so_far >= len(instructions) and _follows(step.action, instructions[-1])
        ):
            reached.add(name)
    return frozenset(reached)


def _follows(action: str, instruction: str) -> bool:
    """Return whether an action contains all words of an instruction except placeholders in capitals."""
    slots = {word for word in instruction.split() if word.strip(".,").isupper()}
    wanted = " ".join(word for word in instruction.split() if word not in slots)
    return set(normalize_text(wanted).split()) <= set(normalize_text(action).split())
