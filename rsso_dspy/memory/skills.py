"""Skill Set Optimization as a memory (Nottingham et al. 2024, section 3; its release; the rSSO paper, section 2): pairs
of windows that trials have in common are scored, a set of them selected, put into words once, and shown in similar
states. Its JSON data hold every text once; `pool` and `selected` are rows of numbers there. Embeddings are recomputed
on demand, so a restored memory continues byte for byte if equal texts have equal rows."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache, reduce
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rsso_dspy.errors import RunMismatch, UsageError
from rsso_dspy.memory import Memory, Recall, Services
from rsso_dspy.memory.skill_windows import (
    WEIGHTS,
    Piece,
    PieceTexts,
    Skill,
    SkillCandidate,
    SkillScores,
    SkillSettings,
    Span,
    TextIndex,
    Window,
    cut_trajectory,
    match_windows,
    normalize_text,
)
from rsso_dspy.memory.texts import BILLION
from rsso_dspy.records import State, Step, Trajectory

Floats = NDArray[np.float64]
Content = tuple[tuple[int, ...], ...]  # text indices per window, windows sorted
FREE = frozenset({"past_reward", "skip_reached", "trim_excerpts"})  # settings that a stored memory need not share
FEEDBACK_TRIALS, DISCOUNT = 20, 0.9  # newest trials whose feedback counts; per step of its return (release)


# Scores: each of four measures relative to its own mean (SSO, section 3.2; release, skillset.py:206-225). A measure x
# with mean m and standard deviation s counts max(0, (x - m + 2s) / s): 2 when average, 0 from two deviations below.

NEUTRAL = 2.0  # value of a measure at its mean, and of every candidate if the measure does not vary


@dataclass(slots=True)
class RunningMoments:
    count: int = 0
    total: int = 0
    squares: int = 0

    def add_values(self, values: Iterable[int]) -> "RunningMoments":
        for value in values:
            self.count += 1
            self.total += value
            self.squares += value * value
        return self

    @property
    def is_constant(self) -> bool:
        return self.count * self.squares == self.total * self.total

    def accepts(self, value: int, constant: bool) -> bool:
        """Return whether a value strictly exceeds the mean; `constant` says whether one that never varied passes."""
        return value * self.count > self.total or (constant and self.is_constant)

    def standardise(self, values: Sequence[float]) -> Floats:
        if self.is_constant:
            return np.full(len(values), NEUTRAL)
        mean = self.total / self.count
        deviation = sqrt(self.count * self.squares - self.total * self.total) / self.count
        return np.maximum(0.0, (np.array(values, dtype=float) - mean + 2 * deviation) / deviation)


COVERAGE = RunningMoments().add_values((3, 4, 5, 6))  # the lengths 3 to 6 for any windows (release, skillset.py:49-50)


def score_candidates(
    pool: Sequence[SkillCandidate],
    pieces: Sequence[Piece],
    similarities: Mapping[str, RunningMoments],
    feedback: Mapping[int, Sequence[tuple[float, bool]]],
    settings: SkillSettings,
) -> list[SkillScores]:
    """Return scores aligned with ``pool``: the weighted mean of coverage (steps), reward (points per window, losses
    included, compared with all positive rewards of the newest pieces), both similarities, and of feedback if it is on
    (events by position in the pool)."""
    recent = pieces[-settings.max_trajectories :]
    rewards = RunningMoments().add_values(points for piece in recent for points in piece.rewards if points > 0)
    steps = [sum(min(end, len(pieces[at])) - start - 1 for at, start, end in item.spans) for item in pool]
    gained = [[sum(pieces[at].rewards[start:end]) for at, start, end in item.spans] for item in pool]
    terms = {
        "coverage": COVERAGE.standardise(steps),
        "reward": rewards.standardise([sum(points) / len(points) for points in gained]),
        "state": similarities["state"].standardise([item.state for item in pool]),
        "action": similarities["action"].standardise([item.action for item in pool]),
        "feedback": np.zeros(len(pool)),
    }
    for position, events in feedback.items():
        worth = rewards.standardise([gain for gain, _ in events]).tolist()
        signed = (value if followed else -value for value, (_, followed) in zip(worth, events, strict=True))
        terms["feedback"][position] = sum(signed)
    weights = {name: weight for name, weight in WEIGHTS.items() if name != "feedback" or settings.feedback}
    total = sum((weights[name] * terms[name] for name in weights), np.zeros(len(pool))) / sum(weights.values())
    # Whole billionths: mathematically equal values tie, whatever the rounding of the last bit.
    total = np.rint(total * BILLION) / BILLION
    return [SkillScores(*row) for row in np.column_stack([*terms.values(), total]).tolist()]


# Selection: beam search for the candidates without conflicts with the largest sum of scores (SSO, section 3.3; release,
# skillset.py:241-273). Two conflict if windows of theirs overlap or touch in a piece. Sets are bit masks over the pool.


class Beam(NamedTuple):
    score: int
    members: tuple[int, ...]
    mask: int
    open: int  # candidates that may still join: later in the pool than all members, and without conflicts


def search_skill_set(pool: Sequence[SkillCandidate], scores: Sequence[int], width: int) -> tuple[list[int], list[int]]:
    """Search a pool, sorted by decreasing score, with ``width`` beams, each extended ``width`` times a round. Returns
    positions in it: the best set, best candidate first; and all of any beam, most used first, equals in pool order."""
    if not pool:
        return [], []
    spans = np.array([candidate.spans for candidate in pool], dtype=np.int64)
    pieces, starts, ends = np.moveaxis(spans, 2, 0)

    @cache
    def mask_conflicts(position: int) -> int:
        """The candidates in conflict with one, itself included."""
        hit = np.zeros(len(spans), dtype=bool)
        for piece, start, end in spans[position]:
            hit |= ((np.maximum(starts, start) <= np.minimum(ends, end)) & (pieces == piece)).any(axis=1)
        return int.from_bytes(np.packbits(hit, bitorder="little").tobytes(), "little")

    beams = [Beam(0, (), 0, (1 << len(pool)) - 1)] * width
    visited: set[int] = set()
    uses = [0] * len(pool)
    while any(beam.open for beam in beams):
        grown = [beam._replace(open=0) for beam in beams]
        for beam in beams:
            for position in _take_unseen_extensions(beam, visited, width):
                later = beam.open >> (position + 1) << (position + 1)
                members = (*beam.members, position)
                mask = beam.mask | 1 << position
                grown.append(Beam(beam.score + scores[position], members, mask, later & ~mask_conflicts(position)))
        beams = sorted(grown, key=lambda beam: -beam.score)[:width]
        for beam in beams:
            for position in beam.members:
                uses[position] += 1
    by_use = sorted((position for position, count in enumerate(uses) if count), key=lambda position: -uses[position])
    return list(beams[0].members), by_use


def _take_unseen_extensions(beam: Beam, seen: set[int], limit: int) -> list[int]:
    positions: list[int] = []
    rest = beam.open
    while rest and len(positions) < limit:
        lowest = rest & -rest
        rest ^= lowest
        if beam.mask | lowest not in seen:
            seen.add(beam.mask | lowest)
            positions.append(lowest.bit_length() - 1)
    return positions


# Texts of skills, and which skill a step pursued.


def describe_skill(skill: Skill) -> str:
    return f"Target: {skill.target} Instructions: {'; '.join(skill.instructions)}"


def render_skills(skills: Sequence[Skill]) -> Recall:
    items = []
    for number, skill in enumerate(skills, start=1):
        steps = (f"{place}. {text}" for place, text in enumerate(skill.instructions, start=1))
        items.append("\n".join([f"Subgoal {number}: {skill.target}", *steps]))
    return Recall("", tuple(skill.id for skill in skills), tuple(skill.target for skill in skills), items=tuple(items))


def find_pursued_skill(step: Step, skills: Mapping[str, Skill]) -> str | None:
    """Return the id of the shown skill whose target the actor named as its subgoal."""
    subgoal = normalize_text(step.subgoal or "", keep_fill_words=True)
    names = (name for name in step.recalled if name in skills)
    return next((name for name in names if subgoal and normalize_text(skills[name].target, True) == subgoal), None)


LATELY = 10  # number of steps for which a completed skill is not offered again


def just_reached(steps: Sequence[Step], skills: Mapping[str, Skill]) -> frozenset[str]:
    """Return the ids of skills completed in the last steps: points were gained in pursuit (unless its words go beyond
    its examples), or as many steps pursued it as it has instructions and the last follows the last of them."""
    lately = steps[-LATELY:]
    pursued = [find_pursued_skill(step, skills) for step in lately]
    reached = set()
    for place, (step, name) in enumerate(zip(lately, pursued, strict=True), start=1):
        if name is None or not step.understood or step.asked_back or step.no_effect:
            continue
        instructions = skills[name].instructions
        gained = step.reward > 0 and not skills[name].beyond
        if gained or (pursued[:place].count(name) >= len(instructions) and _follows(step.action, instructions[-1])):
            reached.add(name)
    return frozenset(reached)


def _follows(action: str, instruction: str) -> bool:
    fixed_words = " ".join(word for word in instruction.split() if not word.strip(".,").isupper())
    return set(normalize_text(fixed_words).split()) <= set(normalize_text(action).split())


# The memory.


@dataclass(slots=True)
class SkillMemoryState:
    pieces: list[Piece] = field(default_factory=list)
    candidates: tuple[SkillCandidate, ...] = ()  # pairs matched in the last update, in order. Not part of a snapshot.
    similarities: dict[str, RunningMoments] = field(
        default_factory=lambda: {"state": RunningMoments(), "action": RunningMoments()}
    )
    """Moments of both similarities, in billionths, over all candidates ever matched."""
    pool: list[tuple[SkillCandidate, float]] = field(default_factory=list)  # for the next search, with last scores
    selected: list[tuple[SkillCandidate, SkillScores]] = field(default_factory=list)  # the skill set, best first
    skills: dict[str, Skill] = field(default_factory=dict)  # every one ever verbalized, by id
    library: list[str] = field(default_factory=list)  # ids of the skills in use, best first
    feedback: list[list[tuple[str, float, bool]]] = field(default_factory=list)
    """Per trial, oldest first: skill id, discounted return in points, whether a reward followed."""
    answers: dict[tuple[str, ...], bool] = field(default_factory=dict)  # by ids: the new skill, then the library

    def list_first_states(self) -> list[State]:
        """The first state of each window of the library, skill by skill."""
        return [self.pieces[at].states[start] for name in self.library for at, start, _ in self.skills[name].spans]

    def dump(self, settings: SkillSettings) -> dict[str, Any]:
        texts: dict[str, int] = {}
        pieces = [piece.dump(texts) for piece in self.pieces]
        return {
            "settings": asdict(settings),
            "texts": list(texts),
            "pieces": pieces,
            "built": len(self.pieces),  # all are matched
            "similarities": {name: list(astuple(moments)) for name, moments in self.similarities.items()},
            "pool": [[score, *candidate.dump()] for candidate, score in self.pool],
            "selected": [[asdict(scores), *candidate.dump()] for candidate, scores in self.selected],
            "skills": [skill.dump() for skill in self.skills.values()],
            "library": list(self.library),
            "feedback": [[list(event) for event in trial] for trial in self.feedback],
            "answers": [[list(question), answer] for question, answer in self.answers.items()],
        }

    @classmethod
    def load(cls, data: dict[str, Any], settings: SkillSettings) -> "SkillMemoryState":
        current = asdict(settings)
        stored = data["settings"]
        if differing := [name for name in current if name not in FREE and stored[name] != current[name]]:
            changes = ", ".join(f"{name} {stored[name]!r} (now {current[name]!r})" for name in differing)
            raise RunMismatch(f"this skill memory has other settings: {changes}; restore these or start a new run")
        return cls(
            pieces=[Piece.load(entry, data["texts"]) for entry in data["pieces"]],
            similarities={name: RunningMoments(*moments) for name, moments in data["similarities"].items()},
            pool=[(SkillCandidate.load(row), score) for score, *row in data["pool"]],
            selected=[(SkillCandidate.load(row), SkillScores(**scores)) for scores, *row in data["selected"]],
            skills={entry["id"]: Skill.load(entry) for entry in data["skills"]},
            library=list(data["library"]),
            feedback=[[(name, gain, followed) for name, gain, followed in trial] for trial in data["feedback"]],
            answers={tuple(question): answer for question, answer in data["answers"]},
        )


def parse_skill_snapshot(snapshot: dict[str, Any], where: str) -> tuple[SkillMemoryState, SkillSettings]:
    """Load a snapshot and its settings. Raises `UsageError` naming ``where`` if damaged, as without a skill's piece."""
    try:
        settings = SkillSettings(**snapshot["settings"])
        state = SkillMemoryState.load(snapshot, settings)
        _ = [state.pieces[at].states[start] for skill in state.skills.values() for at, start, _ in skill.spans]
        return state, settings
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where} holds a damaged skill memory ({type(error).__name__}: {error})") from None


class SkillMemory(Memory):
    """Skills found in what trials have in common (SSO; paper, section 2), the three most similar before every step."""

    region, asks = "skills", ("skill_verbalizer", "skill_equivalence")

    def __init__(self, services: Services):
        super().__init__(services)
        self.settings: SkillSettings = services.runtime.skills or SkillSettings()
        self._texts = TextIndex(services.runtime.embed)
        self.held = SkillMemoryState()
        self._piece_texts: dict[int, PieceTexts] = {}

    @property
    def library(self) -> tuple[Skill, ...]:
        return tuple(self.held.skills[name] for name in self.held.library)

    def recall(self, states: Sequence[State], steps: Sequence[Step]) -> Recall:
        reached = just_reached(steps, self.held.skills) if self.settings.skip_reached else ()
        nearest = [skill for skill, _ in self.rank_skills(states[-1]) if skill.id not in reached]
        return render_skills(nearest[: self.settings.retrieved])

    def rank_skills(self, state: State) -> list[tuple[Skill, int]]:
        """Rank all skills by the mean cosine, in billionths, of ``state`` and the first states of their windows, best
        first, equals in library order (paper, Algorithm 1; release, skillset.py:140-161)."""
        if not self.library:
            return []
        describe, texts = self.settings.describe, self._texts
        query = texts.index_texts([describe(state)])
        starts = texts.index_texts(map(describe, self.held.list_first_states()))
        cosines = iter(texts.compute_similarities(starts, query)[:, 0].tolist())
        means = [sum(next(cosines) for _ in skill.spans) // len(skill.spans) for skill in self.library]
        return sorted(zip(self.library, means, strict=True), key=lambda pair: -pair[1])

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Counts: ``retrieved`` and ``targeted`` steps; ``pieces`` stored, ``candidates`` matched; skills ``written``,
        ``duplicates`` and ``malformed`` ones, calls; sizes now."""
        counts = {"retrieved": 0, "targeted": 0, "pieces": 0, "candidates": 0, "written": 0, "duplicates": 0}
        counts |= {"malformed": 0, "verbalize_calls": 0, "equivalent_calls": 0}
        state = self.held
        self._count_skill_use(trajectory, counts)
        number = state.pieces[-1].trajectory + 1 if state.pieces else 0
        new = cut_trajectory(trajectory, self.settings, number)
        state.pieces.extend(new)
        state.candidates = tuple(self._match_pieces(len(new)))
        counts |= {"pieces": len(new), "candidates": len(state.candidates)}
        if state.candidates:
            self._select_skill_set(state.candidates)
            self._build_library(counts)
        return counts | {"pool": len(state.pool), "selected": len(state.selected), "library": len(state.library)}

    def snapshot(self) -> dict[str, Any]:
        return self.held.dump(self.settings)

    def restore(self, data: dict[str, Any]) -> None:
        self.held = SkillMemoryState.load(data, self.settings)
        self._piece_texts = {}

    @classmethod
    def entries(cls, snapshot: dict[str, Any]) -> list[Skill]:
        state, _ = parse_skill_snapshot(snapshot, "it")
        return [state.skills[name] for name in state.library]

    @classmethod
    def most_calls(cls, states: Sequence[int], alone: bool) -> dict[str, int]:
        """A skill takes two windows of three states or more that keep apart: n states hold at most n / 8. Each costs
        three calls and one question whether it is known."""
        return {"verbalizer": 4 * (sum(states) // 8) if alone or len(states) > 1 else 0}

    def _count_skill_use(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        events: dict[str, tuple[float, bool]] = {}
        skills = self.held.skills
        for index, step in enumerate(trajectory.steps):
            counts["retrieved"] += bool(step.recalled)
            for name in (name for name in step.recalled if name in skills):
                skills[name] = replace(skills[name], retrieved=skills[name].retrieved + 1)
            if meant := find_pursued_skill(step, skills):
                counts["targeted"] += 1
                skills[meant] = replace(skills[meant], targeted=skills[meant].targeted + 1)
                rewards = [later.reward for later in trajectory.steps[index:]]
                gain = reduce(lambda later, points: points + DISCOUNT * later, reversed(rewards), 0.0)
                events.setdefault(meant, (gain, any(points > 0 for points in rewards)))
        if self.settings.feedback:
            self.held.feedback.append([(name, *event) for name, event in events.items()])
            del self.held.feedback[:-FEEDBACK_TRIALS]

    def _match_pieces(self, count: int) -> list[SkillCandidate]:
        """Match so many last pieces with earlier ones."""
        pieces, settings = self.held.pieces, self.settings
        oldest = max(0, len(pieces) - settings.max_trajectories)
        candidates: list[SkillCandidate] = []
        for new in range(max(len(pieces) - count, oldest + 1), len(pieces)):
            if not settings.build_repeats and any(piece.content == pieces[new].content for piece in pieces[:new]):
                continue
            across = settings.pairs == "across-trials"
            trajectory = pieces[new].trajectory
            if earlier := [i for i in range(oldest, new) if not across or pieces[i].trajectory != trajectory]:
                indexed = {index: self._get_piece_texts(index) for index in (*earlier, new)}
                candidates.extend(match_windows(new, earlier, indexed, self._texts, settings))
        return candidates

    def _get_piece_texts(self, index: int) -> PieceTexts:
        if index not in self._piece_texts:
            piece = self.held.pieces[index]
            self._piece_texts[index] = PieceTexts.from_piece(piece, self._texts, self.settings)
        return self._piece_texts[index]

    def _select_skill_set(self, candidates: Sequence[SkillCandidate]) -> None:
        state = self.held
        by_content: dict[Content, SkillCandidate] = {}
        accepted: Sequence[SkillCandidate] = candidates
        for name, moments in state.similarities.items():
            moments.add_values(getattr(candidate, name) for candidate in candidates)
            accepted = [
                candidate
                for candidate in accepted
                if moments.accepts(getattr(candidate, name), self.settings.keep_when_constant)
            ]
        for candidate in (*(candidate for candidate, _ in state.pool), *accepted):
            by_content.setdefault(self._get_window_content(candidate.spans), candidate)

        events = self._collect_feedback(list(by_content))
        distinct = list(by_content.values())
        scores = score_candidates(distinct, state.pieces, state.similarities, events, self.settings)
        pool = sorted(zip(distinct, scores, strict=True), key=lambda pair: -pair[1].total)
        worth = [round(scores.total * BILLION) for _, scores in pool]
        best, by_use = search_skill_set([candidate for candidate, _ in pool], worth, self.settings.beams)
        state.selected = [pool[position] for position in best]
        kept_next = (pool[position] for position in by_use[: self.settings.pool_size])
        state.pool = [(candidate, scores.total) for candidate, scores in kept_next]

    def _get_window_content(self, spans: Sequence[Span]) -> Content:
        contents = []
        for piece, start, end in spans:
            indexed = self._get_piece_texts(piece)
            contents.append((*indexed.states[start:end].tolist(), *indexed.actions[start + 1 : end].tolist()))
        return tuple(sorted(contents))

    def _collect_feedback(self, pool: Sequence[Content]) -> dict[int, list[tuple[float, bool]]]:
        positions = {content: position for position, content in enumerate(pool)}
        events: dict[int, list[tuple[float, bool]]] = {}
        for name, gain, followed in (event for trial in self.held.feedback for event in trial):
            content = self._get_window_content(self.held.skills[name].spans)
            if content in positions:
                events.setdefault(positions[content], []).append((gain, followed))
        return events

    def _build_library(self, counts: dict[str, int]) -> None:
        library: list[Skill] = []
        for candidate, scores in self.held.selected:
            skill = self._verbalize(candidate, scores, counts)
            if skill is None:
                counts["malformed"] += 1
            elif library and self._is_duplicate(skill, library, counts):
                counts["duplicates"] += 1
            else:
                library.append(skill)
        old_library = self.held.library
        self.held.library = [skill.id for skill in library]
        counts["written"] = sum(name not in old_library for name in self.held.library)

    def _verbalize(self, candidate: SkillCandidate, scores: SkillScores, counts: dict[str, int]) -> Skill | None:
        spans = self._look_past_reward(candidate.spans) if self.settings.past_reward else candidate.spans
        windows = tuple(Window.from_span(span, self.held.pieces) for span in spans)
        name = _compute_skill_id(windows)
        if name in self.held.skills:
            skill = replace(self.held.skills[name], spans=candidate.spans, scores=scores)
        else:
            counts["verbalize_calls"] += 1
            services = self.services
            verbalizer = self.asks[0]
            answer = services.ask(
                verbalizer,
                examples=windows,
                action_templates=services.environment.action_templates,
                whole=not self.settings.trim_excerpts,
            )
            if answer is not None and not answer.steps:
                services.reject(verbalizer, answer)
            words = answer and answer.skill
            if words is None or not words.instructions or not words.target.strip():
                return None
            beyond = spans[0].end - candidate.spans[0].end
            skill = Skill(**asdict(words), id=name, spans=candidate.spans, scores=scores, beyond=beyond)
        self.held.skills[name] = skill
        return skill

    def _look_past_reward(self, spans: Sequence[Span]) -> Sequence[Span]:
        """The windows, with the next action where all pieces go on with the same one at no cost; unless it is a number,
        which means nothing without its question."""
        pieces = [(self.held.pieces[span.piece], span.end) for span in spans]
        if all(end < len(piece) and piece.rewards[end] >= 0 for piece, end in pieces):
            following = {normalize_text(piece.actions[end]) for piece, end in pieces}
            if len(following) == 1 and (action := following.pop()) and not action.isdigit():
                return [span._replace(end=span.end + 1) for span in spans]
        return spans

    def _is_duplicate(self, new: Skill, library: Sequence[Skill], counts: dict[str, int]) -> bool:
        if any(_normalize_skill_words(new) == _normalize_skill_words(skill) for skill in library):
            return True
        question = (new.id, *(skill.id for skill in library))
        if question not in self.held.answers:
            counts["equivalent_calls"] += 1
            numbered = "\n".join(f"{number}. {describe_skill(skill)}" for number, skill in enumerate(library, start=1))
            answer = self.services.ask(self.asks[1], library=numbered, new_skill=describe_skill(new))
            numbers = (answer and answer.equivalent) or ()
            self.held.answers[question] = any(1 <= number <= len(library) for number in numbers)
        return self.held.answers[question]


def _normalize_skill_words(skill: Skill) -> tuple[str, ...]:
    return tuple(normalize_text(text, keep_fill_words=True) for text in (skill.target, *skill.instructions))


def _compute_skill_id(examples: Sequence[Window]) -> str:
    """Return 12 hexadecimal digits over the content of the examples in any order."""
    contents = sorted([[state.description for state in window.states], list(window.actions)] for window in examples)
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:12]
