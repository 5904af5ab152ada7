"""The skill memory: learning after a trial, retrieval before a step."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rsso_dspy.memory import Memory, Recall
from rsso_dspy.memory.nearest import Embed
from rsso_dspy.memory.skills import snapshot as archive
from rsso_dspy.memory.skills.extract import cut_trajectory, list_windows
from rsso_dspy.memory.skills.match import PieceTexts, match_windows
from rsso_dspy.memory.skills.memory_state import SkillMemoryState
from rsso_dspy.memory.skills.retrieve import rank_by_similarity, render_fully, render_skills
from rsso_dspy.memory.skills.score import score_candidates
from rsso_dspy.memory.skills.select import search_skill_set
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import (
    BILLION,
    Piece,
    Skill,
    SkillCandidate,
    SkillScores,
    Span,
    Verbalization,
    Window,
)
from rsso_dspy.memory.skills.skill_usage import find_pursued_skill, just_reached
from rsso_dspy.memory.skills.text_index import TextIndex, get_embedding_text, normalize_text
from rsso_dspy.records import State, Step, Trajectory

Verbalize = Callable[[Sequence[Window]], Verbalization | None]
"""Describes the examples of a skill in words; None for a malformed answer. Errors pass through."""

Equivalent = Callable[[Skill, Sequence[Skill]], bool]
"""Returns whether a new skill equals one of the library (never empty). Errors pass through."""

Content = tuple[tuple[int, ...], ...]
"""The content of a candidate's windows, independent of their place: text indices per window; windows sorted."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of the last update, for tests and reports."""

    pieces: tuple[Piece, ...]
    """All stored pieces; a span's ``piece`` is an index into them."""
    candidates: tuple[SkillCandidate, ...]
    """Pairs matched in the last update, in order. Not part of a snapshot."""
    pool: tuple[tuple[SkillCandidate, float], ...]
    """Candidates for the next update with their current scores, most used first."""
    selected: tuple[tuple[SkillCandidate, SkillScores], ...]
    """The skill set, best first; after verbalization and removal of equivalents it becomes the library."""


class SkillMemory(Memory):
    """Skills found in what trials have in common (SSO; paper, section 2).

        memory = SkillMemory(embed, verbalize, equivalent)
        memory.learn(trajectory)              # after every trial; {"candidates": 42, "library": 3, ...}
        memory.recall(states).text            # before every step: the three most similar skills

    The same inputs give the same bytes. Nothing is shared between instances, not even embeddings.
    """

    region = "skills"

    def __init__(
        self, embed: Embed, verbalize: Verbalize, equivalent: Equivalent, settings: SkillSettings | None = None
    ):
        self.settings = settings or SkillSettings()
        self._texts = TextIndex(embed)
        self._verbalize = verbalize
        self._equivalent = equivalent
        self._held = SkillMemoryState()
        self._candidates: tuple[SkillCandidate, ...] = ()
        self._piece_texts: dict[int, PieceTexts] = {}

    @property
    def library(self) -> tuple[Skill, ...]:
        """The skills in use, best first."""
        return tuple(self._held.skills[name] for name in self._held.library)

    def recall(self, states: Sequence[State]) -> Recall:
        """Return the ``retrieved`` skills most similar to the newest state; absent for an empty library."""
        nearest = self.rank_skills(states[-1])[: self.settings.retrieved]
        return render_skills([skill for skill, _ in nearest])

    def recall_after(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:
        """Like `recall`, with names and initial situations, without skills that were just completed."""
        reached = just_reached(steps, self._held.skills)
        nearest = [skill for skill, _ in self.rank_skills(states[-1]) if skill.id not in reached]
        return render_fully(nearest[: self.settings.retrieved])

    def rank_skills(self, state: State) -> list[tuple[Skill, float]]:
        """Return all skills with their similarity to ``state``, -1 to 1, in the order of retrieval."""
        return [
            (skill, similarity / BILLION)
            for skill, similarity in rank_by_similarity(self.library, state, self._texts, self.settings)
        ]

    def inspect_update(self) -> Inspection:
        held = self._held
        return Inspection(tuple(held.pieces), self._candidates, tuple(held.pool), tuple(held.selected))

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Store the trial; if it yields new candidates, select the skill set again and verbalize it.

        Counts: ``retrieved`` and ``targeted`` steps of the trial; ``pieces`` stored from it, ``candidates`` matched;
        skills ``written`` into the library that it lacked before, ``duplicates`` and ``malformed`` ones left out,
        calls made; sizes of ``pool``, ``selected`` and ``library`` now.
        """
        counts = {"retrieved": 0, "targeted": 0, "pieces": 0, "candidates": 0, "written": 0, "duplicates": 0}
        counts |= {"malformed": 0, "verbalize_calls": 0, "equivalent_calls": 0}
        self._count_skill_use(trajectory, counts)
        number = self._held.pieces[-1].trajectory + 1 if self._held.pieces else 0
        new = cut_trajectory(trajectory, self.settings, number)
        self._held.pieces.extend(new)
        candidates = self._match_new_pieces()
        self._candidates = tuple(candidates)
        counts |= {"pieces": len(new), "candidates": len(candidates)}
        if candidates:
            self._select_skill_set(candidates)
            self._build_library(counts)
        held = self._held
        return counts | {"pool": len(held.pool), "selected": len(held.selected), "library": len(held.library)}

    def snapshot(self) -> dict[str, Any]:
        """Return JSON data without embeddings; see ``skills/snapshot.py`` for the layout."""
        return archive.dump_snapshot(self._held, self.settings)

    def restore(self, data: dict[str, Any]) -> None:
        """Replace the content of this memory by ``data``.

        Raises ``RunMismatch`` if it was stored under other settings.
        """
        self._held = archive.load_snapshot(data, self.settings)
        self._candidates = ()
        self._piece_texts = {}

    # After a trial: use, match, choose, write.

    def _count_skill_use(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Count shown and pursued skills, and store the return after the first step of each pursuit."""
        events: dict[str, tuple[float, bool]] = {}
        skills = self._held.skills
        for index, step in enumerate(trajectory.steps):
            shown = [name for name in step.recalled if name in skills]
            counts["retrieved"] += bool(step.recalled)
            for name in shown:
                skills[name] = replace(skills[name], retrieved=skills[name].retrieved + 1)
            if meant := find_pursued_skill(step, skills):
                counts["targeted"] += 1
                skills[meant] = replace(skills[meant], targeted=skills[meant].targeted + 1)
                events.setdefault(meant, self._compute_return([later.reward for later in trajectory.steps[index:]]))
        if self.settings.feedback:
            self._held.feedback.append([(name, *event) for name, event in events.items()])
            del self._held.feedback[: -self.settings.feedback_trials]

    def _compute_return(self, rewards: Sequence[int]) -> tuple[float, bool]:
        """Return the discounted return in points from a step on, and whether any reward is positive."""
        gain = 0.0
        for points in reversed(rewards):
            gain = points + self.settings.discount * gain
        return gain, any(points > 0 for points in rewards)

    def _match_new_pieces(self) -> list[SkillCandidate]:
        """Match the new pieces with the earlier ones among the newest."""
        held = self._held
        oldest = max(0, len(held.pieces) - self.settings.max_trajectories)
        todo = range(max(held.built, oldest + 1), len(held.pieces))
        held.built = len(held.pieces)
        found: list[SkillCandidate] = []
        for new in todo:
            if not self.settings.build_repeats and self._is_repeat(new):
                continue
            across = self.settings.pairs == "across-trials"
            own = held.pieces[new].trajectory
            if earlier := [i for i in range(oldest, new) if not across or held.pieces[i].trajectory != own]:
                indexed = {index: self._get_piece_texts(index) for index in (*earlier, new)}
                found.extend(match_windows(new, earlier, indexed, self._texts, self.settings))
        return found

    def _is_repeat(self, new: int) -> bool:
        """Return whether an earlier piece has the same state descriptions and actions."""
        content = _get_piece_content(self._held.pieces[new])
        return any(_get_piece_content(piece) == content for piece in self._held.pieces[:new])

    def _get_piece_texts(self, index: int) -> PieceTexts:
        if index not in self._piece_texts:
            piece = self._held.pieces[index]
            described = [get_embedding_text(state, self.settings) for state in piece.states]
            both = self._texts.index_texts([*described, *piece.actions])
            states, actions = both[: len(piece)], both[len(piece) :]
            self._piece_texts[index] = PieceTexts(states, actions, tuple(list_windows(piece.rewards, self.settings)))
        return self._piece_texts[index]

    def _select_skill_set(self, candidates: Sequence[SkillCandidate]) -> None:
        held = self._held
        held.similarities.add_candidates(candidates)
        kept = [candidate for candidate in candidates if held.similarities.accepts_candidate(candidate, self.settings)]
        known: dict[Content, SkillCandidate] = {}
        for candidate in (*(candidate for candidate, _ in held.pool), *kept):
            known.setdefault(self._get_window_content(candidate.spans), candidate)
        events = self._collect_feedback(list(known))
        scored = zip(
            known.values(),
            score_candidates(list(known.values()), held.pieces, held.similarities, events, self.settings),
            strict=True,
        )
        pool = sorted(scored, key=lambda pair: -pair[1].total)
        worth = [round(scores.total * BILLION) for _, scores in pool]
        choice = search_skill_set([candidate for candidate, _ in pool], worth, self.settings.beams)
        held.selected = [pool[position] for position in choice.best]
        kept_next = (pool[position] for position in choice.used[: self.settings.pool_size])
        held.pool = [(candidate, scores.total) for candidate, scores in kept_next]

    def _get_window_content(self, spans: Sequence[Span]) -> Content:
        said = []
        for piece, start, end in spans:
            indexed = self._get_piece_texts(piece)
            said.append((*indexed.states[start:end].tolist(), *indexed.actions[start + 1 : end].tolist()))
        return tuple(sorted(said))

    def _collect_feedback(self, pool: Sequence[Content]) -> dict[int, list[tuple[float, bool]]]:
        positions = {content: position for position, content in enumerate(pool)}
        events: dict[int, list[tuple[float, bool]]] = {}
        for trial in self._held.feedback:
            for name, gain, followed in trial:
                content = self._get_window_content([window.span for window in self._held.skills[name].windows])
                if content in positions:
                    events.setdefault(positions[content], []).append((gain, followed))
        return events

    def _build_library(self, counts: dict[str, int]) -> None:
        """Build the library from the selected set: verbalize new skills and drop equivalent ones."""
        held = self._held
        before = list(held.library)
        library: list[Skill] = []
        for candidate, scores in held.selected:
            skill = self._verbalize_candidate(candidate, scores, counts)
            if skill is None:
                counts["malformed"] += 1
            elif library and self._is_duplicate(skill, library, counts):
                counts["duplicates"] += 1
            else:
                library.append(skill)
        held.library = [skill.id for skill in library]
        counts["written"] = sum(name not in before for name in held.library)

    def _verbalize_candidate(
        self, candidate: SkillCandidate, scores: SkillScores, counts: dict[str, int]
    ) -> Skill | None:
        examples = self._get_windows(candidate.spans)
        told = self._look_past_reward(candidate.spans) if self.settings.past_reward else examples
        name = _compute_skill_id(told)
        if name in self._held.skills:
            skill = replace(self._held.skills[name], windows=examples, scores=scores)
        else:
            counts["verbalize_calls"] += 1
            words = self._verbalize(told)
            if words is None or not words.instructions or not words.target.strip():
                return None
            skill = Skill(name, words.summary, words.name, words.instructions, words.target, examples, scores)
            skill = replace(skill, beyond=len(told[0].actions) - len(examples[0].actions))
        self._held.skills[name] = skill
        return skill

    def _get_windows(self, spans: Sequence[Span]) -> tuple[Window, ...]:
        return tuple(Window.from_span(span, self._held.pieces[span.piece]) for span in spans)

    def _look_past_reward(self, spans: Sequence[Span]) -> tuple[Window, ...]:
        """The windows, with the next action where all pieces go on with the same one, which costs no points. The number
        of an option means nothing without its question."""
        pieces = [self._held.pieces[span.piece] for span in spans]
        if any(span.end >= len(piece) for span, piece in zip(spans, pieces, strict=True)):
            return self._get_windows(spans)
        following = {normalize_text(piece.actions[span.end]) for span, piece in zip(spans, pieces, strict=True)}
        loss = any(piece.rewards[span.end] < 0 for span, piece in zip(spans, pieces, strict=True))
        if loss or len(following) > 1 or following == {""} or following.pop().isdigit():
            return self._get_windows(spans)
        return self._get_windows([span._replace(end=span.end + 1) for span in spans])

    def _is_duplicate(self, new: Skill, library: Sequence[Skill], counts: dict[str, int]) -> bool:
        """Return whether two skills are equivalent, without a call for equal words or repeated questions."""
        if any(_normalize_skill_words(new) == _normalize_skill_words(skill) for skill in library):
            return True
        question = (new.id, *(skill.id for skill in library))
        if question not in self._held.answers:
            counts["equivalent_calls"] += 1
            self._held.answers[question] = bool(self._equivalent(new, tuple(library)))
        return self._held.answers[question]


def _get_piece_content(piece: Piece) -> tuple[str, ...]:
    return (*(state.description for state in piece.states), *piece.actions)


def _normalize_skill_words(skill: Skill) -> tuple[str, ...]:
    return tuple(normalize_text(text, keep_fill_words=True) for text in (skill.target, *skill.instructions))


def _compute_skill_id(examples: Sequence[Window]) -> str:
    """Return 12 hexadecimal digits over the content of the examples, independent of their order."""
    said = sorted([[state.description for state in window.states], list(window.actions)] for window in examples)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]
