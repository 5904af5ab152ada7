"""The memory itself: what happens after a trial, and before a step."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rsso_dspy.memory import NOTHING, Recall
from rsso_dspy.memory.skills import snapshot as archive
from rsso_dspy.memory.skills.contents import Contents
from rsso_dspy.memory.skills.extract import cut, windows
from rsso_dspy.memory.skills.match import PieceTexts, match
from rsso_dspy.memory.skills.retrieve import rank, render, render_fully
from rsso_dspy.memory.skills.score import score
from rsso_dspy.memory.skills.select import select
from rsso_dspy.memory.skills.settings import SkillSettings
from rsso_dspy.memory.skills.skill import BILLION, Candidate, Piece, Scores, Skill, Span, Verbalization, Window
from rsso_dspy.memory.skills.texts import Embed, Texts, embedded, normalise
from rsso_dspy.memory.skills.use import just_reached, pursued
from rsso_dspy.trajectory import State, Step, Trajectory, Variant

__all__ = ["Equivalent", "Inspection", "SkillMemory", "Verbalize"]

Verbalize = Callable[[Sequence[Window]], Verbalization | None]
"""Puts the examples of one skill into words; None when an answer was malformed. Its own errors pass through."""

Equivalent = Callable[[Skill, Sequence[Skill]], bool]
"""Whether a new skill says the same as one of the library (never empty). Its own errors pass through."""

Content = tuple[tuple[int, ...], ...]
"""What the windows of a candidate say, wherever they stand: per window its text indices; windows sorted."""


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the last update did, for tests and reports."""

    pieces: tuple[Piece, ...]
    """All stored pieces; a span's ``piece`` is an index into them."""
    candidates: tuple[Candidate, ...]
    """Pairs found at the last update, in the order of matching. Not part of a snapshot."""
    pool: tuple[tuple[Candidate, float], ...]
    """Candidates kept for the next update with their scores in this one, most used first."""
    selected: tuple[tuple[Candidate, Scores], ...]
    """The skill set, best first; verbalized and freed of equivalents it is the library."""


class SkillMemory:
    """Skills found in what trials have in common (SSO; paper, section 2).

        memory = SkillMemory(embed, verbalize, equivalent)
        memory.learn(trajectory)              # after every trial; {"candidates": 42, "library": 3, ...}
        memory.recall(states).text            # before every step: the three skills that start most like here

    The same inputs give the same bytes. Nothing is shared between instances, not even embeddings.
    """

    region = "skills"

    def __init__(
        self, embed: Embed, verbalize: Verbalize, equivalent: Equivalent, settings: SkillSettings | None = None
    ):
        self.settings = settings or SkillSettings()
        self._texts = Texts(embed)
        self._verbalize = verbalize
        self._equivalent = equivalent
        self._held = Contents()
        self._candidates: tuple[Candidate, ...] = ()
        self._piece_texts: dict[int, PieceTexts] = {}

    @property
    def library(self) -> tuple[Skill, ...]:
        """The skills in use, best first."""
        return tuple(self._held.skills[name] for name in self._held.library)

    def preamble(self) -> Recall:
        return NOTHING

    def recall(self, states: Sequence[State]) -> Recall:
        """The ``retrieved`` skills nearest to the newest state; absent while the library is empty."""
        nearest = self.nearest(states[-1])[: self.settings.retrieved]
        return render([skill for skill, _ in nearest])

    def recall_after(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:
        """The same, with names and starting situations, less the skills that the last steps have just reached."""
        reached = just_reached(steps, self._held.skills)
        nearest = [skill for skill, _ in self.nearest(states[-1]) if skill.id not in reached]
        return render_fully(nearest[: self.settings.retrieved])

    def notice(self, variant: Variant, task: str, states: Sequence[State], steps: Sequence[Step]) -> None:
        """Skills are found in what whole trials have in common."""

    def nearest(self, state: State) -> list[tuple[Skill, float]]:
        """Every skill of the library with its similarity to ``state``, -1 to 1, in the order of retrieval."""
        return [
            (skill, similarity / BILLION) for skill, similarity in rank(self.library, state, self._texts, self.settings)
        ]

    def inspect(self) -> Inspection:
        held = self._held
        return Inspection(tuple(held.pieces), self._candidates, tuple(held.pool), tuple(held.selected))

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Store the trial, and when it brings new candidates choose the skill set anew and put it into words.

        Counts: ``retrieved`` and ``targeted`` steps of the trial; ``pieces`` stored from it, ``candidates`` matched;
        skills ``written`` into the library that it lacked before, ``duplicates`` and ``malformed`` ones left out,
        calls made; sizes of ``pool``, ``selected`` and ``library`` now.
        """
        counts = {"retrieved": 0, "targeted": 0, "pieces": 0, "candidates": 0, "written": 0, "duplicates": 0}
        counts |= {"malformed": 0, "verbalize_calls": 0, "equivalent_calls": 0}
        self._count_use(trajectory, counts)
        new = cut(trajectory, self.settings, self._number())
        self._held.pieces.extend(new)
        candidates = self._match_new_pieces()
        self._candidates = tuple(candidates)
        counts |= {"pieces": len(new), "candidates": len(candidates)}
        if candidates:
            self._choose(candidates)
            self._write(counts)
        held = self._held
        return counts | {"pool": len(held.pool), "selected": len(held.selected), "library": len(held.library)}

    def snapshot(self) -> dict[str, Any]:
        """JSON data; embeddings are not in it. See ``skills/snapshot.py`` for the layout."""
        return archive.dump(self._held, self.settings)

    def restore(self, data: dict[str, Any]) -> None:
        """Become the memory that ``data`` was taken from; what this one held is gone.

        Raises ``RunMismatch`` when it was taken under other settings.
        """
        self._held = archive.load(data, self.settings)
        self._candidates = ()
        self._piece_texts = {}

    # After a trial: use, match, choose, write.

    def _count_use(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Count what was shown and what was pursued; note the return that followed the first step of each pursuit."""
        events: dict[str, tuple[float, bool]] = {}
        skills = self._held.skills
        for index, step in enumerate(trajectory.steps):
            shown = [name for name in step.recalled if name in skills]
            counts["retrieved"] += bool(step.recalled)
            for name in shown:
                skills[name] = replace(skills[name], retrieved=skills[name].retrieved + 1)
            if meant := pursued(step, skills):
                counts["targeted"] += 1
                skills[meant] = replace(skills[meant], targeted=skills[meant].targeted + 1)
                events.setdefault(meant, self._outcome([later.reward for later in trajectory.steps[index:]]))
        if self.settings.feedback:
            self._held.feedback.append([(name, *event) for name, event in events.items()])
            del self._held.feedback[: -self.settings.feedback_trials]

    def _outcome(self, rewards: Sequence[int]) -> tuple[float, bool]:
        """Discounted return in points of the rewards from a step on, and whether one of them is positive."""
        gain = 0.0
        for points in reversed(rewards):
            gain = points + self.settings.discount * gain
        return gain, any(points > 0 for points in rewards)

    def _number(self) -> int:
        """Of the trajectory that is learnt now."""
        return self._held.pieces[-1].trajectory + 1 if self._held.pieces else 0

    def _match_new_pieces(self) -> list[Candidate]:
        """Candidates of the pieces not matched yet, against the earlier ones among the newest."""
        held = self._held
        oldest = max(0, len(held.pieces) - self.settings.max_trajectories)
        todo = range(max(held.built, oldest + 1), len(held.pieces))
        held.built = len(held.pieces)
        found: list[Candidate] = []
        for new in todo:
            if not self.settings.build_repeats and self._repeats(new):
                continue
            if earlier := self._partners(new, range(oldest, new)):
                indexed = {index: self._indexed(index) for index in (*earlier, new)}
                found.extend(match(new, earlier, indexed, self._texts, self.settings))
        return found

    def _partners(self, new: int, earlier: Sequence[int]) -> Sequence[int]:
        """The earlier pieces that a new one may be matched with."""
        if self.settings.pairs == "any":
            return earlier
        pieces = self._held.pieces
        return [index for index in earlier if pieces[index].trajectory != pieces[new].trajectory]

    def _repeats(self, new: int) -> bool:
        """Whether an earlier piece has the same state descriptions and actions."""
        content = _says(self._held.pieces[new])
        return any(_says(piece) == content for piece in self._held.pieces[:new])

    def _indexed(self, index: int) -> PieceTexts:
        if index not in self._piece_texts:
            piece = self._held.pieces[index]
            described = [embedded(state, self.settings) for state in piece.states]
            both = self._texts.indices([*described, *piece.actions])
            states, actions = both[: len(piece)], both[len(piece) :]
            self._piece_texts[index] = PieceTexts(states, actions, tuple(windows(piece.rewards, self.settings)))
        return self._piece_texts[index]

    def _choose(self, candidates: Sequence[Candidate]) -> None:
        """Filter, score and select; keep the candidates that the search used."""
        held = self._held
        held.similarities.add(candidates)
        kept = [candidate for candidate in candidates if held.similarities.passes(candidate, self.settings)]
        known: dict[Content, Candidate] = {}
        for candidate in (*(candidate for candidate, _ in held.pool), *kept):
            known.setdefault(self._content(candidate.spans), candidate)
        events = self._events(list(known))
        scored = zip(
            known.values(),
            score(list(known.values()), held.pieces, held.similarities, events, self.settings),
            strict=True,
        )
        pool = sorted(scored, key=lambda pair: -pair[1].total)
        worth = [round(scores.total * BILLION) for _, scores in pool]
        choice = select([candidate for candidate, _ in pool], worth, self.settings.beams)
        held.selected = [pool[position] for position in choice.best]
        kept_next = (pool[position] for position in choice.used[: self.settings.pool_size])
        held.pool = [(candidate, scores.total) for candidate, scores in kept_next]

    def _content(self, spans: Sequence[Span]) -> Content:
        said = []
        for piece, start, end in spans:
            indexed = self._indexed(piece)
            said.append((*indexed.states[start:end].tolist(), *indexed.actions[start + 1 : end].tolist()))
        return tuple(sorted(said))

    def _events(self, pool: Sequence[Content]) -> dict[int, list[tuple[float, bool]]]:
        """Feedback events by position in the pool of the skill that they are about."""
        positions = {content: position for position, content in enumerate(pool)}
        events: dict[int, list[tuple[float, bool]]] = {}
        for trial in self._held.feedback:
            for name, gain, followed in trial:
                content = self._content([window.span for window in self._held.skills[name].windows])
                if content in positions:
                    events.setdefault(positions[content], []).append((gain, followed))
        return events

    def _write(self, counts: dict[str, int]) -> None:
        """Make the library from the selected set: words for each new skill, then no two that say the same."""
        held = self._held
        before = list(held.library)
        library: list[Skill] = []
        for candidate, scores in held.selected:
            skill = self._worded(candidate, scores, counts)
            if skill is None:
                counts["malformed"] += 1
            elif library and self._says_nothing_new(skill, library, counts):
                counts["duplicates"] += 1
            else:
                library.append(skill)
        held.library = [skill.id for skill in library]
        counts["written"] = sum(name not in before for name in held.library)

    def _worded(self, candidate: Candidate, scores: Scores, counts: dict[str, int]) -> Skill | None:
        examples = tuple(Window.of(span, self._held.pieces[span.piece]) for span in candidate.spans)
        name = _identify(examples)
        if name in self._held.skills:
            skill = replace(self._held.skills[name], windows=examples, scores=scores)
        else:
            counts["verbalize_calls"] += 1
            words = self._verbalize(examples)
            if words is None or not words.instructions or not words.target.strip():
                return None
            skill = Skill(name, words.summary, words.name, words.instructions, words.target, examples, scores)
        self._held.skills[name] = skill
        return skill

    def _says_nothing_new(self, new: Skill, library: Sequence[Skill], counts: dict[str, int]) -> bool:
        """Equal words need no call, and no question is asked twice."""
        if any(_words(new) == _words(skill) for skill in library):
            return True
        question = (new.id, *(skill.id for skill in library))
        if question not in self._held.answers:
            counts["equivalent_calls"] += 1
            self._held.answers[question] = bool(self._equivalent(new, tuple(library)))
        return self._held.answers[question]


def _says(piece: Piece) -> tuple[str, ...]:
    return (*(state.description for state in piece.states), *piece.actions)


def _words(skill: Skill) -> tuple[str, ...]:
    return tuple(normalise(text, keep_fill_words=True) for text in (skill.target, *skill.instructions))


def _identify(examples: Sequence[Window]) -> str:
    """Twelve hexadecimal digits of what the examples say, in any order."""
    said = sorted([[state.description for state in window.states], list(window.actions)] for window in examples)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]
