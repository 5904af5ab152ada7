"""The skill memory: learning after a trial, retrieval before a step, and itself as JSON data.

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

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields, replace
from typing import Any

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.memory import BILLION, Embed, Memory, Recall, Services
from rsso_dspy.memory.skills.cut import cut_trajectory, list_windows
from rsso_dspy.memory.skills.match import PieceTexts, match_windows
from rsso_dspy.memory.skills.retrieve import (
    TextIndex,
    find_pursued_skill,
    get_embedding_text,
    just_reached,
    normalize_text,
    rank_by_similarity,
    render_skills,
)
from rsso_dspy.memory.skills.score import RunningMoments, SimilarityMoments, score_candidates
from rsso_dspy.memory.skills.select import search_skill_set
from rsso_dspy.memory.skills.skill import (
    FREE,
    Piece,
    Skill,
    SkillCandidate,
    SkillScores,
    SkillSettings,
    Span,
    Verbalization,
    Window,
)
from rsso_dspy.records import State, Step, Trajectory

Verbalize = Callable[[Sequence[Window]], Verbalization | None]
"""Describes the examples of a skill in words; None for a malformed answer. Errors pass through."""

Equivalent = Callable[[Skill, Sequence[Skill]], bool]
"""Returns whether a new skill equals one of the library (never empty). Errors pass through."""

SCHEMA = 1

Content = tuple[tuple[int, ...], ...]
"""The content of a candidate's windows, independent of their place: text indices per window; windows sorted."""


@dataclass(slots=True)
class SkillMemoryState:
    """The state of a skill memory; empty when fresh."""

    pieces: list[Piece] = field(default_factory=list)
    """All stored pieces; a span's ``piece`` is an index into them."""
    candidates: tuple[SkillCandidate, ...] = ()
    """Pairs matched in the last update, in order. Not part of a snapshot."""
    built: int = 0
    """Number of leading pieces that need no matching."""
    similarities: SimilarityMoments = field(
        default_factory=lambda: SimilarityMoments(RunningMoments(), RunningMoments())
    )
    pool: list[tuple[SkillCandidate, float]] = field(default_factory=list)
    """Candidates for the next search with their scores in the last one, most used first."""
    selected: list[tuple[SkillCandidate, SkillScores]] = field(default_factory=list)
    """The skill set, best first."""
    skills: dict[str, Skill] = field(default_factory=dict)
    """Every skill ever verbalized, by id, as of its last selection."""
    library: list[str] = field(default_factory=list)
    """Ids of the skills in use, best first."""
    feedback: list[list[tuple[str, float, bool]]] = field(default_factory=list)
    """Per trial, oldest first: skill id, discounted return in points, whether a reward followed."""
    answers: dict[tuple[str, ...], bool] = field(default_factory=dict)
    """Equivalence answers by ids: the new skill, then the library."""

    def dump(self, settings: SkillSettings) -> dict[str, Any]:
        texts: dict[str, int] = {}
        pieces = [piece.dump(texts) for piece in self.pieces]
        moments = self.similarities
        return {
            "schema": SCHEMA,
            "settings": settings.dump(),
            "texts": list(texts),
            "pieces": pieces,
            "built": self.built,
            "similarities": {"state": list(astuple(moments.state)), "action": list(astuple(moments.action))},
            "pool": [[score, *candidate.dump()] for candidate, score in self.pool],
            "selected": [[asdict(scores), *candidate.dump()] for candidate, scores in self.selected],
            "skills": [skill.dump() for skill in self.skills.values()],
            "library": list(self.library),
            "feedback": [[list(event) for event in trial] for trial in self.feedback],
            "answers": [[list(question), answer] for question, answer in self.answers.items()],
        }

    @classmethod
    def load(cls, data: dict[str, Any], settings: SkillSettings) -> "SkillMemoryState":
        """Restore a memory. Raises ``RunMismatch`` for another schema or other settings."""
        if data["schema"] != SCHEMA:
            raise RunMismatch(
                f"this skill memory has schema {data['schema']}, but this program reads schema {SCHEMA}; "
                "restore it with the version of rsso-dspy that stored it"
            )
        now, then = asdict(settings), data["settings"]
        if differing := [name for name in now if name not in FREE and then[name] != now[name]]:
            changes = ", ".join(f"{name} {then[name]!r} (now {now[name]!r})" for name in differing)
            raise RunMismatch(
                f"this skill memory has other settings: {changes}; restore these settings or start a new run"
            )
        pieces = [Piece.load(entry, data["texts"]) for entry in data["pieces"]]
        moments = data["similarities"]
        return cls(
            pieces=pieces,
            built=data["built"],
            similarities=SimilarityMoments(RunningMoments(*moments["state"]), RunningMoments(*moments["action"])),
            pool=[(SkillCandidate.load(row), score) for score, *row in data["pool"]],
            selected=[(SkillCandidate.load(row), SkillScores(**scores)) for scores, *row in data["selected"]],
            skills={entry["id"]: Skill.load(entry, pieces) for entry in data["skills"]},
            library=list(data["library"]),
            feedback=[[(name, gain, followed) for name, gain, followed in trial] for trial in data["feedback"]],
            answers={tuple(question): answer for question, answer in data["answers"]},
        )


def parse_skill_snapshot(snapshot: dict[str, Any], where: str) -> tuple[SkillMemoryState, SkillSettings]:
    """Load a snapshot and its settings.

    Raises `UsageError` naming ``where`` if it is damaged, `RunMismatch` if another version of this program made it.
    """
    try:
        known = {entry.name for entry in fields(SkillSettings)}
        if stored := [name for name in snapshot["settings"] if name not in known]:
            raise RunMismatch(
                f"{where} was made with settings unknown to this version ({', '.join(stored)}); update rsso-dspy"
            )
        settings = SkillSettings(**snapshot["settings"])
        return SkillMemoryState.load(snapshot, settings), settings
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where} holds a damaged skill memory ({type(error).__name__}: {error})") from None


class SkillMemory(Memory):
    """Skills found in what trials have in common (SSO; paper, section 2).

        memory = SkillMemory(embed, verbalize, equivalent)
        memory.learn(trajectory)              # after every trial; {"candidates": 42, "library": 3, ...}
        memory.recall(states, steps).text     # before every step: the three most similar skills

    The same inputs give the same bytes. Nothing is shared between instances, not even embeddings.
    """

    region, asks = "skills", ("skill_verbalizer", "skill_equivalence")

    @classmethod
    def make(cls, services: Services) -> "SkillMemory":
        def verbalize(examples: Sequence[Window]) -> Verbalization | None:
            templates = services.environment.action_templates
            said = services.ask("skill_verbalizer", examples=examples, action_templates=templates)
            if said is not None and not said.steps:
                services.reject("skill_verbalizer", said)
            skill: Verbalization | None = said and said.skill
            return skill

        def judge_equivalence(new: Skill, library: Sequence[Skill]) -> bool:
            numbered = "\n".join(f"{number}. {skill.describe()}" for number, skill in enumerate(library, start=1))
            said = services.ask("skill_equivalence", library=numbered, new_skill=new.describe())
            return said is not None and any(1 <= number <= len(library) for number in said.equivalent or ())

        runtime = services.runtime
        return cls(runtime.embed, verbalize, judge_equivalence, runtime.skills)

    def __init__(
        self,
        embed: Embed,
        verbalize: Verbalize,
        equivalent: Equivalent,
        settings: SkillSettings | None = None,
    ):
        self.settings = settings or SkillSettings()
        self._texts = TextIndex(embed)
        self._verbalize = verbalize
        self._equivalent = equivalent
        self.held = SkillMemoryState()
        self._piece_texts: dict[int, PieceTexts] = {}

    @property
    def library(self) -> tuple[Skill, ...]:
        """The skills in use, best first."""
        return tuple(self.held.skills[name] for name in self.held.library)

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:
        """Return the ``retrieved`` skills most similar to the newest state; absent for an empty library."""
        reached = just_reached(steps, self.held.skills) if self.settings.skip_reached else ()
        nearest = [skill for skill, _ in self.rank_skills(states[-1]) if skill.id not in reached]
        return render_skills(nearest[: self.settings.retrieved])

    def rank_skills(self, state: State) -> list[tuple[Skill, float]]:
        """Return all skills with their similarity to ``state``, -1 to 1, in the order of retrieval."""
        return [
            (skill, similarity / BILLION)
            for skill, similarity in rank_by_similarity(self.library, state, self._texts, self.settings)
        ]

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Store the trial; if it yields new candidates, select the skill set again and verbalize it.

        Counts: ``retrieved`` and ``targeted`` steps of the trial; ``pieces`` stored from it, ``candidates`` matched;
        skills ``written`` into the library that it lacked before, ``duplicates`` and ``malformed`` ones left out,
        calls made; sizes of ``pool``, ``selected`` and ``library`` now.
        """
        counts = {"retrieved": 0, "targeted": 0, "pieces": 0, "candidates": 0, "written": 0, "duplicates": 0}
        counts |= {"malformed": 0, "verbalize_calls": 0, "equivalent_calls": 0}
        self._count_skill_use(trajectory, counts)
        number = self.held.pieces[-1].trajectory + 1 if self.held.pieces else 0
        new = cut_trajectory(trajectory, self.settings, number)
        self.held.pieces.extend(new)
        candidates = self._match_new_pieces()
        self.held.candidates = tuple(candidates)
        counts |= {"pieces": len(new), "candidates": len(candidates)}
        if candidates:
            self._select_skill_set(candidates)
            self._build_library(counts)
        held = self.held
        return counts | {"pool": len(held.pool), "selected": len(held.selected), "library": len(held.library)}

    def snapshot(self) -> dict[str, Any]:
        """Return JSON data without embeddings."""
        return self.held.dump(self.settings)

    def restore(self, data: dict[str, Any]) -> None:
        """Replace the content of this memory by ``data``.

        Raises ``RunMismatch`` if it was stored under other settings.
        """
        self.held = SkillMemoryState.load(data, self.settings)
        self._piece_texts = {}

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> list[Skill]:
        held, _ = parse_skill_snapshot(snapshot, "it")
        return [held.skills[name] for name in held.library]

    @classmethod
    def most_calls(cls, states: Sequence[int], alone: bool) -> dict[str, int]:
        """A skill takes two windows of three states or more that keep apart, so trajectories of n states in all hold at
        most n / 8 of them; each costs three calls and one question whether it is known."""
        return {"verbalizer": 4 * (sum(states) // 8) if alone or len(states) > 1 else 0}

    # After a trial: use, match, choose, write.

    def _count_skill_use(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        """Count shown and pursued skills, and store the return after the first step of each pursuit."""
        events: dict[str, tuple[float, bool]] = {}
        skills = self.held.skills
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
            self.held.feedback.append([(name, *event) for name, event in events.items()])
            del self.held.feedback[: -self.settings.feedback_trials]

    def _compute_return(self, rewards: Sequence[int]) -> tuple[float, bool]:
        """Return the discounted return in points from a step on, and whether any reward is positive."""
        gain = 0.0
        for points in reversed(rewards):
            gain = points + self.settings.discount * gain
        return gain, any(points > 0 for points in rewards)

    def _match_new_pieces(self) -> list[SkillCandidate]:
        """Match the new pieces with the earlier ones among the newest."""
        held = self.held
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
        return any(piece.content == self.held.pieces[new].content for piece in self.held.pieces[:new])

    def _get_piece_texts(self, index: int) -> PieceTexts:
        if index not in self._piece_texts:
            piece = self.held.pieces[index]
            described = [get_embedding_text(state, self.settings) for state in piece.states]
            both = self._texts.index_texts([*described, *piece.actions])
            states, actions = both[: len(piece)], both[len(piece) :]
            self._piece_texts[index] = PieceTexts(states, actions, tuple(list_windows(piece.rewards, self.settings)))
        return self._piece_texts[index]

    def _select_skill_set(self, candidates: Sequence[SkillCandidate]) -> None:
        held = self.held
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
        for trial in self.held.feedback:
            for name, gain, followed in trial:
                content = self._get_window_content([window.span for window in self.held.skills[name].windows])
                if content in positions:
                    events.setdefault(positions[content], []).append((gain, followed))
        return events

    def _build_library(self, counts: dict[str, int]) -> None:
        """Build the library from the selected set: verbalize new skills and drop equivalent ones."""
        held = self.held
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
        if name in self.held.skills:
            skill = replace(self.held.skills[name], windows=examples, scores=scores)
        else:
            counts["verbalize_calls"] += 1
            words = self._verbalize(told)
            if words is None or not words.instructions or not words.target.strip():
                return None
            skill = Skill(name, words.summary, words.name, words.instructions, words.target, examples, scores)
            skill = replace(skill, beyond=len(told[0].actions) - len(examples[0].actions))
        self.held.skills[name] = skill
        return skill

    def _get_windows(self, spans: Sequence[Span]) -> tuple[Window, ...]:
        return tuple(Window.from_span(span, self.held.pieces[span.piece]) for span in spans)

    def _look_past_reward(self, spans: Sequence[Span]) -> tuple[Window, ...]:
        """The windows, with the next action where all pieces go on with the same one, which costs no points. The number
        of an option means nothing without its question."""
        pieces = [self.held.pieces[span.piece] for span in spans]
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
        if question not in self.held.answers:
            counts["equivalent_calls"] += 1
            self.held.answers[question] = bool(self._equivalent(new, tuple(library)))
        return self.held.answers[question]


def _normalize_skill_words(skill: Skill) -> tuple[str, ...]:
    return tuple(normalize_text(text, keep_fill_words=True) for text in (skill.target, *skill.instructions))


def _compute_skill_id(examples: Sequence[Window]) -> str:
    """Return 12 hexadecimal digits over the content of the examples, independent of their order."""
    said = sorted([[state.description for state in window.states], list(window.actions)] for window in examples)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]
