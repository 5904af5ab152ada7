"""Skill Set Optimization as a memory (Nottingham et al. 2024, section 3; its release; the rSSO paper, section 2): pairs
of windows that trials have in common are scored, a set of them selected, put into words once, and shown in similar
states. Its JSON data hold every text once; `pool` and `selected` are rows of numbers there. Embeddings are recomputed
on demand, so a restored memory continues byte for byte if equal texts have equal rows."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from functools import cache
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
    Verbalization,
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
FEEDBACK_TRIALS = 20  # newest trials whose feedback counts
DISCOUNT = 0.9  # of its return, per step (release)


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
        raised = np.array(values, dtype=float) - mean + 2 * deviation
        return np.maximum(0.0, raised / deviation)


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
    rewards = RunningMoments()
    for piece in pieces[-settings.max_trajectories :]:
        rewards.add_values(points for points in piece.rewards if points > 0)

    terms = {
        "coverage": COVERAGE.standardise([_count_steps(candidate, pieces) for candidate in pool]),
        "reward": rewards.standardise([_compute_mean_reward(candidate, pieces) for candidate in pool]),
        "state": similarities["state"].standardise([candidate.state for candidate in pool]),
        "action": similarities["action"].standardise([candidate.action for candidate in pool]),
        "feedback": np.zeros(len(pool)),
    }
    for position, events in feedback.items():
        terms["feedback"][position] = _sum_feedback(events, rewards)

    weights = dict(WEIGHTS)
    if not settings.feedback:
        del weights["feedback"]
    total = np.zeros(len(pool))
    for name, weight in weights.items():
        total = total + weight * terms[name]
    total = total / sum(weights.values())
    # Whole billionths: mathematically equal values tie, whatever the rounding of the last bit.
    total = np.rint(total * BILLION) / BILLION

    rows = np.column_stack([*terms.values(), total]).tolist()
    return [SkillScores(*row) for row in rows]


def _count_steps(candidate: SkillCandidate, pieces: Sequence[Piece]) -> int:
    """The actions in all windows. A window with overhang ends with its piece."""
    steps = 0
    for piece, start, end in candidate.spans:
        steps += min(end, len(pieces[piece])) - start - 1
    return steps


def _compute_mean_reward(candidate: SkillCandidate, pieces: Sequence[Piece]) -> float:
    """The points gained in a window, on average."""
    points = [sum(pieces[piece].rewards[start:end]) for piece, start, end in candidate.spans]
    return sum(points) / len(points)


def _sum_feedback(events: Sequence[tuple[float, bool]], rewards: RunningMoments) -> float:
    """The worth of the returns, of which those that no reward followed are taken off."""
    values = rewards.standardise([gain for gain, _ in events]).tolist()
    signed: list[float] = []
    for value, (_, followed) in zip(values, events, strict=True):
        signed.append(value if followed else -value)
    return sum(signed)


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
            touching = np.maximum(starts, start) <= np.minimum(ends, end)
            hit |= (touching & (pieces == piece)).any(axis=1)
        bits = np.packbits(hit, bitorder="little")
        return int.from_bytes(bits.tobytes(), "little")

    empty = Beam(score=0, members=(), mask=0, open=(1 << len(pool)) - 1)
    beams = [empty] * width
    visited: set[int] = set()
    uses = [0] * len(pool)
    while any(beam.open for beam in beams):
        grown = [beam._replace(open=0) for beam in beams]
        for beam in beams:
            for position in _take_unseen_extensions(beam, visited, width):
                later = beam.open >> (position + 1) << (position + 1)
                extended = Beam(
                    score=beam.score + scores[position],
                    members=(*beam.members, position),
                    mask=beam.mask | 1 << position,
                    open=later & ~mask_conflicts(position),
                )
                grown.append(extended)

        beams = sorted(grown, key=lambda beam: -beam.score)[:width]
        for beam in beams:
            for position in beam.members:
                uses[position] += 1

    members_of_any = [position for position, count in enumerate(uses) if count]
    by_use = sorted(members_of_any, key=lambda position: -uses[position])
    return list(beams[0].members), by_use


def _take_unseen_extensions(beam: Beam, seen: set[int], limit: int) -> list[int]:
    positions: list[int] = []
    rest = beam.open
    while rest and len(positions) < limit:
        lowest = rest & -rest
        rest ^= lowest
        mask = beam.mask | lowest
        if mask not in seen:
            seen.add(mask)
            positions.append(lowest.bit_length() - 1)
    return positions


# Texts of skills, and which skill a step pursued.


def describe_skill(skill: Skill) -> str:
    instructions = "; ".join(skill.instructions)
    return f"Target: {skill.target} Instructions: {instructions}"


def render_skills(skills: Sequence[Skill]) -> Recall:
    items = []
    for number, skill in enumerate(skills, start=1):
        lines = [f"Subgoal {number}: {skill.target}"]
        for place, instruction in enumerate(skill.instructions, start=1):
            lines.append(f"{place}. {instruction}")
        items.append("\n".join(lines))

    return Recall(
        ids=tuple(skill.id for skill in skills),
        targets=tuple(skill.target for skill in skills),
        items=tuple(items),
    )


def find_pursued_skill(step: Step, skills: Mapping[str, Skill]) -> str | None:
    """Return the id of the shown skill whose target the actor named as its subgoal."""
    subgoal = normalize_text(step.subgoal or "", keep_fill_words=True)
    if not subgoal:
        return None
    for name in step.recalled:
        if name in skills and normalize_text(skills[name].target, keep_fill_words=True) == subgoal:
            return name
    return None


LATELY = 10  # number of steps for which a completed skill is not offered again


def just_reached(steps: Sequence[Step], skills: Mapping[str, Skill]) -> frozenset[str]:
    """Return the ids of skills completed in the last steps: points were gained in pursuit (unless its words go beyond
    its examples), or as many steps pursued it as it has instructions and the last follows the last of them."""
    reached = set()
    pursued = []
    for step in steps[-LATELY:]:
        name = find_pursued_skill(step, skills)
        pursued.append(name)
        if name is None or not step.understood or step.asked_back or step.no_effect:
            continue
        if _is_completed(skills[name], step, pursued.count(name)):
            reached.add(name)
    return frozenset(reached)


def _is_completed(skill: Skill, step: Step, pursuing: int) -> bool:
    """Whether a step, the last of so many in pursuit of a skill, completes it."""
    if step.reward > 0 and not skill.beyond:
        return True
    return pursuing >= len(skill.instructions) and _follows(step.action, skill.instructions[-1])


def _follows(action: str, instruction: str) -> bool:
    """Whether an action says all words of an instruction but its placeholders."""
    fixed_words = [word for word in instruction.split() if not word.strip(".,").isupper()]
    required = normalize_text(" ".join(fixed_words)).split()
    return set(required) <= set(normalize_text(action).split())


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
        states: list[State] = []
        for name in self.library:
            states += self.list_start_states(self.skills[name])
        return states

    def list_start_states(self, skill: Skill) -> list[State]:
        """The first state of each window of a skill."""
        return [self.pieces[piece].states[start] for piece, start, _ in skill.spans]

    def dump(self, settings: SkillSettings) -> dict[str, Any]:
        texts: dict[str, int] = {}  # filled by the pieces
        pieces = [piece.dump(texts) for piece in self.pieces]
        feedback = []
        for events in self.feedback:
            feedback.append([list(event) for event in events])
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
            "feedback": feedback,
            "answers": [[list(question), answer] for question, answer in self.answers.items()],
        }

    @classmethod
    def load(cls, data: dict[str, Any], settings: SkillSettings) -> "SkillMemoryState":
        current = asdict(settings)
        stored = data["settings"]
        changes = []
        for name, value in current.items():
            if name not in FREE and stored[name] != value:
                changes.append(f"{name} {stored[name]!r} (now {value!r})")
        if changes:
            listed = ", ".join(changes)
            raise RunMismatch(f"this skill memory has other settings: {listed}; restore these or start a new run")

        return cls(
            pieces=[Piece.load(entry, data["texts"]) for entry in data["pieces"]],
            similarities={name: RunningMoments(*moments) for name, moments in data["similarities"].items()},
            pool=[(SkillCandidate.load(row), score) for score, *row in data["pool"]],
            selected=[(SkillCandidate.load(row), SkillScores(**scores)) for scores, *row in data["selected"]],
            skills={entry["id"]: Skill.load(entry) for entry in data["skills"]},
            library=list(data["library"]),
            feedback=[_load_events(rows) for rows in data["feedback"]],
            answers={tuple(question): answer for question, answer in data["answers"]},
        )


def _load_events(rows: Iterable[Sequence[Any]]) -> list[tuple[str, float, bool]]:
    return [(name, gain, followed) for name, gain, followed in rows]


def parse_skill_snapshot(snapshot: dict[str, Any], where: str) -> tuple[SkillMemoryState, SkillSettings]:
    """Load a snapshot and its settings. Raises `UsageError` naming ``where`` if damaged, as without a skill's piece."""
    try:
        settings = SkillSettings(**snapshot["settings"])
        state = SkillMemoryState.load(snapshot, settings)
        for skill in state.skills.values():
            state.list_start_states(skill)  # an IndexError where the piece of one is missing
        return state, settings
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(f"{where} holds a damaged skill memory ({type(error).__name__}: {error})") from None


class SkillMemory(Memory):
    """Skills found in what trials have in common (SSO; paper, section 2), the three most similar before every step."""

    region = "skills"
    asks = ("skill_verbalizer", "skill_equivalence")

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
        reached: frozenset[str] = frozenset()
        if self.settings.skip_reached:
            reached = just_reached(steps, self.held.skills)
        ranking = self.rank_skills(states[-1])
        nearest = [skill for skill, _ in ranking if skill.id not in reached]
        return render_skills(nearest[: self.settings.retrieved])

    def rank_skills(self, state: State) -> list[tuple[Skill, int]]:
        """Rank all skills by the mean cosine, in billionths, of ``state`` and the first states of their windows, best
        first, equals in library order (paper, Algorithm 1; release, skillset.py:140-161)."""
        library = self.library
        if not library:
            return []
        describe = self.settings.describe
        query = self._texts.index_texts([describe(state)])
        starts = self._texts.index_texts(map(describe, self.held.list_first_states()))
        cosines = self._texts.compute_similarities(starts, query)[:, 0].tolist()

        ranking: list[tuple[Skill, int]] = []
        first = 0
        for skill in library:
            windows = len(skill.spans)
            mean = sum(cosines[first : first + windows]) // windows
            ranking.append((skill, mean))
            first += windows
        return sorted(ranking, key=lambda pair: -pair[1])

    def learn(self, trajectory: Trajectory) -> dict[str, Any]:
        """Counts: ``retrieved`` and ``targeted`` steps; ``pieces`` stored, ``candidates`` matched; skills ``written``,
        ``duplicates`` and ``malformed`` ones, calls; sizes now."""
        counts = {
            "retrieved": 0,
            "targeted": 0,
            "pieces": 0,
            "candidates": 0,
            "written": 0,
            "duplicates": 0,
            "malformed": 0,
            "verbalize_calls": 0,
            "equivalent_calls": 0,
        }
        state = self.held
        self._count_skill_use(trajectory, counts)

        number = state.pieces[-1].trajectory + 1 if state.pieces else 0
        new = cut_trajectory(trajectory, self.settings, number)
        state.pieces.extend(new)
        counts["pieces"] = len(new)

        state.candidates = tuple(self._match_pieces(len(new)))
        counts["candidates"] = len(state.candidates)
        if state.candidates:
            self._select_skill_set(state.candidates)
            self._build_library(counts)

        counts["pool"] = len(state.pool)
        counts["selected"] = len(state.selected)
        counts["library"] = len(state.library)
        return counts

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
        makes_skills = alone or len(states) > 1
        most = sum(states) // 8 if makes_skills else 0
        return {"verbalizer": 4 * most}

    def _count_skill_use(self, trajectory: Trajectory, counts: dict[str, int]) -> None:
        events: dict[str, tuple[float, bool]] = {}
        skills = self.held.skills
        for index, step in enumerate(trajectory.steps):
            counts["retrieved"] += bool(step.recalled)
            for name in step.recalled:
                skill = skills.get(name)
                if skill is not None:
                    skills[name] = replace(skill, retrieved=skill.retrieved + 1)

            pursued = find_pursued_skill(step, skills)
            if not pursued:
                continue
            counts["targeted"] += 1
            skill = skills[pursued]
            skills[pursued] = replace(skill, targeted=skill.targeted + 1)
            rewards = [later.reward for later in trajectory.steps[index:]]
            followed = any(points > 0 for points in rewards)
            events.setdefault(pursued, (_compute_return(rewards), followed))

        if self.settings.feedback:
            self.held.feedback.append([(name, *event) for name, event in events.items()])
            del self.held.feedback[:-FEEDBACK_TRIALS]

    def _match_pieces(self, count: int) -> list[SkillCandidate]:
        """Match so many last pieces with earlier ones."""
        number = len(self.held.pieces)
        oldest = max(0, number - self.settings.max_trajectories)
        first = max(number - count, oldest + 1)
        candidates: list[SkillCandidate] = []
        for new in range(first, number):
            if not self.settings.build_repeats and self._is_repeat(new):
                continue
            earlier = self._list_partners(new, oldest)
            if not earlier:
                continue
            indexed = {index: self._get_piece_texts(index) for index in (*earlier, new)}
            candidates.extend(match_windows(new, earlier, indexed, self._texts, self.settings))
        return candidates

    def _is_repeat(self, index: int) -> bool:
        """Whether an earlier piece has the same content."""
        content = self.held.pieces[index].content
        return any(piece.content == content for piece in self.held.pieces[:index])

    def _list_partners(self, new: int, oldest: int) -> list[int]:
        """The pieces that a new one may be matched with: from the oldest to the one before it."""
        earlier = list(range(oldest, new))
        if self.settings.pairs != "across-trials":
            return earlier
        pieces = self.held.pieces
        trajectory = pieces[new].trajectory
        return [index for index in earlier if pieces[index].trajectory != trajectory]

    def _get_piece_texts(self, index: int) -> PieceTexts:
        if index not in self._piece_texts:
            piece = self.held.pieces[index]
            self._piece_texts[index] = PieceTexts.from_piece(piece, self._texts, self.settings)
        return self._piece_texts[index]

    def _select_skill_set(self, candidates: Sequence[SkillCandidate]) -> None:
        state = self.held
        accepted = self._accept_candidates(candidates)
        pooled = [candidate for candidate, _ in state.pool]
        by_content: dict[Content, SkillCandidate] = {}
        for candidate in [*pooled, *accepted]:
            content = self._get_window_content(candidate.spans)
            by_content.setdefault(content, candidate)

        events = self._collect_feedback(list(by_content))
        distinct = list(by_content.values())
        scores = score_candidates(distinct, state.pieces, state.similarities, events, self.settings)
        pool = sorted(zip(distinct, scores, strict=True), key=lambda pair: -pair[1].total)

        sorted_candidates = [candidate for candidate, _ in pool]
        sorted_scores = [round(scores.total * BILLION) for _, scores in pool]
        best, by_use = search_skill_set(sorted_candidates, sorted_scores, self.settings.beams)
        state.selected = [pool[position] for position in best]
        state.pool = []
        for position in by_use[: self.settings.pool_size]:
            candidate, candidate_scores = pool[position]
            state.pool.append((candidate, candidate_scores.total))

    def _accept_candidates(self, candidates: Sequence[SkillCandidate]) -> Sequence[SkillCandidate]:
        """Add both similarities to their moments, and return the candidates that exceed the means."""
        keep_constant = self.settings.keep_when_constant
        accepted = candidates
        for name, moments in self.held.similarities.items():
            moments.add_values(getattr(candidate, name) for candidate in candidates)
            accepted = [candidate for candidate in accepted if moments.accepts(getattr(candidate, name), keep_constant)]
        return accepted

    def _get_window_content(self, spans: Sequence[Span]) -> Content:
        contents = []
        for piece, start, end in spans:
            indexed = self._get_piece_texts(piece)
            states = indexed.states[start:end].tolist()
            actions = indexed.actions[start + 1 : end].tolist()
            contents.append((*states, *actions))
        return tuple(sorted(contents))

    def _collect_feedback(self, pool: Sequence[Content]) -> dict[int, list[tuple[float, bool]]]:
        """Position in the pool to the events of the skills with that content."""
        positions = {content: position for position, content in enumerate(pool)}
        collected: dict[int, list[tuple[float, bool]]] = {}
        for events in self.held.feedback:
            for name, gain, followed in events:
                content = self._get_window_content(self.held.skills[name].spans)
                if content in positions:
                    collected.setdefault(positions[content], []).append((gain, followed))
        return collected

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
        spans: Sequence[Span] = candidate.spans
        if self.settings.past_reward:
            spans = self._look_past_reward(spans)
        windows = tuple(Window.from_span(span, self.held.pieces) for span in spans)
        name = _compute_skill_id(windows)

        if name in self.held.skills:
            skill = replace(self.held.skills[name], spans=candidate.spans, scores=scores)
        else:
            counts["verbalize_calls"] += 1
            words = self._ask_for_words(windows)
            if words is None:
                return None
            beyond = spans[0].end - candidate.spans[0].end
            skill = Skill(**asdict(words), id=name, spans=candidate.spans, scores=scores, beyond=beyond)
        self.held.skills[name] = skill
        return skill

    def _ask_for_words(self, windows: Sequence[Window]) -> Verbalization | None:
        """What the verbalizer calls a skill; None where it names no target or no instructions."""
        verbalizer = self.asks[0]
        answer = self.services.ask(
            verbalizer,
            examples=windows,
            action_templates=self.services.environment.action_templates,
            whole=not self.settings.trim_excerpts,
        )
        if answer is None:
            return None
        if not answer.steps:
            self.services.reject(verbalizer, answer)
        words: Verbalization | None = answer.skill
        if words is None or not words.instructions or not words.target.strip():
            return None
        return words

    def _look_past_reward(self, spans: Sequence[Span]) -> Sequence[Span]:
        """The windows, with the next action where all pieces go on with the same one at no cost; unless it is a number,
        which means nothing without its question."""
        following = set()
        for span in spans:
            piece = self.held.pieces[span.piece]
            if span.end >= len(piece) or piece.rewards[span.end] < 0:
                return spans
            following.add(normalize_text(piece.actions[span.end]))

        if len(following) != 1:
            return spans
        action = following.pop()
        if not action or action.isdigit():
            return spans
        return [span._replace(end=span.end + 1) for span in spans]

    def _is_duplicate(self, new: Skill, library: Sequence[Skill], counts: dict[str, int]) -> bool:
        new_words = _normalize_skill_words(new)
        if any(_normalize_skill_words(skill) == new_words for skill in library):
            return True
        question = (new.id, *(skill.id for skill in library))
        if question not in self.held.answers:
            counts["equivalent_calls"] += 1
            self.held.answers[question] = self._ask_for_equivalence(new, library)
        return self.held.answers[question]

    def _ask_for_equivalence(self, new: Skill, library: Sequence[Skill]) -> bool:
        """Whether a model finds a skill of the library that equals the new one."""
        lines = [f"{number}. {describe_skill(skill)}" for number, skill in enumerate(library, start=1)]
        answer = self.services.ask(
            self.asks[1],
            library="\n".join(lines),
            new_skill=describe_skill(new),
        )
        if not answer:
            return False
        return any(1 <= number <= len(library) for number in answer.equivalent or ())


def _compute_return(rewards: Sequence[int]) -> float:
    """The discounted sum of the points from a step on."""
    gain = 0.0
    for points in reversed(rewards):
        gain = points + DISCOUNT * gain
    return gain


def _normalize_skill_words(skill: Skill) -> tuple[str, ...]:
    texts = (skill.target, *skill.instructions)
    return tuple(normalize_text(text, keep_fill_words=True) for text in texts)


def _compute_skill_id(examples: Sequence[Window]) -> str:
    """Return 12 hexadecimal digits over the content of the examples in any order."""
    contents = []
    for window in examples:
        descriptions = [state.description for state in window.states]
        contents.append([descriptions, list(window.actions)])
    digest = hashlib.sha256(json.dumps(sorted(contents)).encode())
    return digest.hexdigest()[:12]
