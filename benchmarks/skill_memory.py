"""Cost of skill memory beside an actor's step: matching and selecting against the plain way, learning, recalling.

    python benchmarks/skill_memory.py [--pieces 10] [--rounds 5]

The trials are made up, from a seed: one route of 50 states through a house, walked again with a fifth of the actions
replaced, so that texts repeat as in played trials; about one state in six pays, the last one always does. Vectors are
looked up, so that no embedding is timed; words cost nothing. Times are CPU seconds of this process, with one thread.

1.  Match and select, preset `release` (every stretch of 3 to 5 states is a window). Ten pieces of 50 states arrive as
    one trial: 45 pairs of pieces are matched and one set is chosen, by the package and by `tests/memory/oracle.py`,
    the plain nested loops that the tests hold the package against. Equal candidates, in order, and an equal set are
    asserted. ratio = plain / package, both measured here (target: at least 100). The plain way cleans and compares two
    texts as often as it meets them; "remembering" is the plain way with every similarity of two texts computed once.
2.  `learn`: five trials of 50 states, each played with skills shown and pursued; the fifth is to take less than 150 ms
    in either preset.
3.  `recall`, per step, on a library of some twenty skills: less than 2 ms beside the one embedding.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.script import make_parser, parse_options
from rsso_dspy.memory import skills as learning
from rsso_dspy.memory.skill_windows import SkillCandidate, SkillSettings
from rsso_dspy.memory.skills import SkillMemory, search_skill_set
from rsso_dspy.records import State, Step, Trajectory, Variant

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.memory.memory_cases import Writer, lend, words_embed
from tests.memory.oracle import Oracle, search

LENGTH = 50
"""States in a trial, and in a piece."""
PRESETS = {"sso-adapt/3": SkillSettings(), "release": SkillSettings.sso_release()}
REFERENCE_SECONDS = (2.6, 8.9, 20.6, 33.6)
"""CPU of the published code for trials 2 to 5 of 50 states, language model and embeddings stubbed out; measured
earlier on trials of its own making, so it stands beside our figures and in no ratio."""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--pieces", type=int, default=10, help="pieces that the plain way has to match, 2 to 10")
    parser.add_argument("--rounds", type=int, default=5, help="repetitions of whatever takes less than a second")
    options = parse_options(parser, pieces=2, rounds=1)
    with threadpool_limits(1):
        result = compare_with_oracle(options.pieces, options.rounds)
        for name in PRESETS:
            result |= time_learning(name, options.rounds) | time_recall(name)
    print(json.dumps(result))


# What is measured.


def compare_with_oracle(pieces: int, rounds: int) -> dict[str, Any]:
    settings = PRESETS["release"]
    trial = join_trials(make_trials(pieces))
    table = VectorTable([trial])
    ours = [TimedSkillMemory(table, settings) for _ in range(rounds)]
    for memory in ours:
        memory.learn(trial)
    assert min(memory.match_seconds, memory.select_seconds) > 0, "what was to be timed is called otherwise now"
    pool, worth = memory.searched
    found, chosen = memory.held.candidates, memory.held.selected
    print(
        f"{pieces} pieces of {LENGTH} states: {len(found)} candidates, {len(pool)} searched, {len(chosen)} selected\n"
    )

    match = [statistics.median(memory.match_seconds for memory in ours)]
    for oracle in (CachingOracle(table.cosine, settings), MatchingOracle(table.cosine, settings)):
        match.append(time_call(lambda oracle=oracle: oracle.learn(trial))[0])
        assert [(item.spans, item.state, item.action) for item in found] == oracle.candidates
    slow, (best, used) = time_call(lambda: search([item.spans for item in pool], worth, settings.beams))
    assert memory.answer == (best, used)
    assert [item for item, _ in chosen] == [pool[position] for position in best]

    choose = [statistics.median(memory.select_seconds for memory in ours), slow, slow]
    both = [one + two for one, two in zip(match, choose, strict=True)]
    rows = {"match": match, "select": choose, "match + select": both}
    print(f"| CPU seconds, equal output | plain | plain, remembering | package | ratio |\n{'|---' * 5}|")
    for label, (fast, remembering, plain) in rows.items():
        print(f"| {label} | {plain:.2f} | {remembering:.2f} | {fast:.3f} | {plain / fast:.0f} |", flush=True)
    ratios = {label: round(plain / fast, 1) for label, (fast, _, plain) in rows.items()}
    return {
        "ratio": ratios["match + select"],
        "target": 100,
        "ratio_match": ratios["match"],
        "ratio_select": ratios["select"],
        "ratio_remembering": round(both[1] / both[0], 1),
        "pieces": pieces,
        "candidates": len(found),
        "searched": len(pool),
    }


def time_learning(preset: str, rounds: int) -> dict[str, Any]:
    """Milliseconds of `learn` after each of five trials; the target is about the fifth."""
    played = make_trials(5)
    table = VectorTable(played)
    taken = []
    for _ in range(rounds):
        memory = TimedSkillMemory(table, PRESETS[preset])
        taken.append([])
        for trial in played:
            lived = pursue_skills(trial, memory)
            taken[-1].append(time_call(lambda lived=lived, memory=memory: memory.learn(lived))[0])
    medians = [1000 * statistics.median(times) for times in zip(*taken, strict=True)]
    print(f"\nlearn, {preset}, {len(memory.library)} skills in the end; the published code on its own trials")
    print(f"| trial | this package, ms | published code, ms (measured earlier) |\n{'|---' * 3}|")
    for trial, (median, reference) in enumerate(zip(medians[1:], REFERENCE_SECONDS, strict=True), start=2):
        print(f"| {trial} | {median:.1f} | {1000 * reference:.0f} |", flush=True)
    return {f"learn_5_ms {preset}": round(medians[-1], 1), "learn_target_ms": 150}


def time_recall(preset: str) -> dict[str, Any]:
    """Milliseconds per step of a trial played with what ten earlier ones taught."""
    *played, current = make_trials(11)
    table = VectorTable([*played, current])
    memory = TimedSkillMemory(table, PRESETS[preset])
    for trial in played:
        memory.learn(trial)
    table.asked.clear()
    known = {text for trial in played for text in list_texts(trial)}
    states = current.states
    taken = [time_call(lambda end=end: memory.recall(states[:end], []))[0] for end in range(1, len(states) + 1)]
    assert sorted(table.asked) == sorted({state.description for state in states} - known), "only new states, once"
    mean, most = 1000 * statistics.fmean(taken), 1000 * max(taken)
    print(f"\nrecall, {preset}, {len(memory.library)} skills, {len(table.asked)} of {len(states)} states new: "
          f"{mean:.2f} ms a step, at most {most:.2f}")  # fmt: skip
    figures = {"recall_ms": round(mean, 3), "recall_max_ms": round(most, 3), "library": len(memory.library)}
    return {f"{name} {preset}": figure for name, figure in figures.items()} | {"recall_target_ms": 2}


def time_call(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    answer = work()
    return time.process_time() - start, answer


class MatchingOracle(Oracle):
    """The oracle up to its candidates."""

    def update(self) -> None: ...


class CachingOracle(MatchingOracle):
    """The same, but the similarity of two texts is computed once."""

    def __init__(self, cosine: Callable[[str, str], float], settings: SkillSettings):
        super().__init__(cosine, settings)
        self.similarity = cache(self.similarity)


class TimedSkillMemory(SkillMemory):
    """A memory whose words cost nothing. It takes the time of its matching and of its search, and keeps what was
    searched."""

    def __init__(self, table: "VectorTable", settings: SkillSettings):
        super().__init__(lend(Writer().ask, embed=table, skills=settings))
        self.match_seconds = self.select_seconds = 0.0
        self.searched: tuple[Sequence[SkillCandidate], Sequence[int]] = ((), ())

    def _match_pieces(self, count: int) -> list[SkillCandidate]:
        self.match_seconds, candidates = time_call(lambda: SkillMemory._match_pieces(self, count))
        return candidates

    def _select_skill_set(self, candidates: Sequence[SkillCandidate]) -> None:
        def time_select(pool: Sequence[SkillCandidate], scores: Sequence[int], width: int) -> Any:
            self.searched = (pool, scores)
            self.select_seconds, self.answer = time_call(lambda: search_skill_set(pool, scores, width))
            return self.answer

        learning.search_skill_set = time_select
        try:
            super()._select_skill_set(candidates)
        finally:
            learning.search_skill_set = search_skill_set


# What it is measured on.

ROOMS = ("kitchen", "bathroom", "bedroom", "workshop", "greenhouse", "foundry", "outside", "art studio", "hallway")
THINGS = ("thermometer", "cup", "pot", "table", "sink", "stove", "lighter", "shovel", "jug", "seed", "plant", "fridge")
MATTER = ("water", "lead", "chocolate", "wood", "steel", "soil", "gallium", "apple juice", "paper")
RouteMove = tuple[str, str]
"""A verb and what it is about."""
RoomContents = dict[str, list[str]]
"""What stands in each room."""


def make_trials(count: int, seed: int = 0) -> list[Trajectory]:
    """``count`` trials of ``LENGTH`` states along one route."""
    chance = random.Random(seed)
    rooms = {
        room: [f"a {chance.choice(THINGS)} (containing a substance called {chance.choice(MATTER)})" for _ in range(14)]
        for room in ROOMS
    }
    route = [_draw_move(chance) for _ in range(LENGTH - 1)]
    return [_walk_route(trial, route, rooms, chance) for trial in range(1, count + 1)]


def _walk_route(trial: int, route: Sequence[RouteMove], rooms: RoomContents, chance: random.Random) -> Trajectory:
    room, held, score = ROOMS[0], "", 0
    start = _make_state("You wake up.", room, rooms, held)
    steps = []
    for number, planned in enumerate(route, start=1):
        verb, what = planned if chance.random() < 0.8 else _draw_move(chance)
        if verb == "go to":
            room = what
        elif verb == "pick up":
            held = what
        state = _make_state(f"You {verb} the {what}.", room, rooms, held)
        pays = number == len(route) or chance.random() < 1 / 6
        points = chance.choice((1, 2, 3, 5, 8)) if pays else 0
        score += points
        action = f"{verb} {what}"
        steps.append(Step(action, action, state, points, score, True))
    return Trajectory(Variant("boil", 0), trial, "Your task is to boil water.", start, 0, tuple(steps), "failed")


def _make_state(said: str, room: str, rooms: RoomContents, held: str) -> State:
    listed = "\n\t".join(rooms[room])
    look = f"This room is called the {room}. In it, you see:\n\t{listed}\nYou also see:\n\tA door to the hallway (open)"
    return State(said, look, f"In your inventory, you see:\n\tan orange\n\t{held or 'nothing else'}")


def _draw_move(chance: random.Random) -> RouteMove:
    verb = chance.choice(("go to", "go to", "pick up", "look at", "focus on", "activate"))
    return verb, chance.choice(ROOMS if verb == "go to" else THINGS)


def join_trials(played: Sequence[Trajectory]) -> Trajectory:
    """One trial that walks all of them in turn: each becomes a piece of ``LENGTH`` states."""
    steps = list(played[0].steps)
    for trial in played[1:]:
        steps += [Step("look around", "look around", trial.start, 0, 0, True), *trial.steps]
    return Trajectory(played[0].variant, 1, played[0].task, played[0].start, 0, tuple(steps), "failed")


def pursue_skills(trial: Trajectory, memory: SkillMemory) -> Trajectory:
    """The same trial by an actor that is shown skills at every step, and always pursues the nearest one."""
    steps = []
    for before, step in enumerate(trial.steps, start=1):
        recall = memory.recall(trial.states[:before], [])
        steps.append(replace(step, recalled=recall.ids, subgoal=next(iter(recall.targets), None)))
    return replace(trial, steps=tuple(steps))


def list_texts(trial: Trajectory) -> list[str]:
    return [state.description for state in trial.states] + ["", *(step.action for step in trial.steps)]


class VectorTable:
    """Every text's vector, made beforehand from the directions of its words: texts that share words are alike. Whole
    multiples of 2 ** -20, so that a dot product has the same bits in whatever order it is summed."""

    def __init__(self, played: Sequence[Trajectory]):
        known = list(dict.fromkeys(text for trial in played for text in list_texts(trial)))
        self.rows = dict(zip(known, np.rint(words_embed(known) * 2**20) / 2**20, strict=True))
        self.asked: list[str] = []

    def __call__(self, wanted: Sequence[str]) -> np.ndarray:
        self.asked += wanted
        return np.stack([self.rows[text] for text in wanted])

    def cosine(self, left: str, right: str) -> float:
        return float(self.rows[left] @ self.rows[right])


if __name__ == "__main__":
    main()
