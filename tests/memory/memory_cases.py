"""Trajectories, embedders and writers for the tests of the memory room: small, exact, without any model."""

import hashlib
import re
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from rsso_dspy.memory.skill_windows import SkillSettings, Verbalization, Window
from rsso_dspy.memory.skills import SkillMemory
from rsso_dspy.records import Lesson, State, Step, Trajectory, Variant

BOIL = Variant("boil", 22)


def show_states(states: Sequence[State]) -> list[str]:
    return [state.description for state in states]


def hash_embed(texts: Sequence[str]) -> np.ndarray:
    """The embedder of the golden data: a text's MD5 seeds a random direction in 384 dimensions."""
    seeds = [int(hashlib.md5(text.encode()).hexdigest()[:8], 16) for text in texts]
    rows = np.array([np.random.RandomState(seed).randn(384) for seed in seeds])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def words_embed(texts: Sequence[str]) -> np.ndarray:
    """Texts that share words are alike: the normalised sum of their words' directions."""
    rows = []
    for text in texts:
        words = re.findall(r"\w+", text.lower()) or [""]
        rows.append(hash_embed(words).sum(axis=0))
    return np.array([row / np.linalg.norm(row) for row in rows])


def plain(text: str) -> State:
    """A state whose whole description is ``text``."""
    return State(text, "", "")


def trajectory(
    states: Sequence[str],
    actions: Sequence[str],
    rewards: Sequence[int],
    trial: int = 1,
    subgoals: dict[int, tuple[str, tuple[str, ...]]] | None = None,
) -> Trajectory:
    """``actions[i]`` leads from ``states[i]`` to ``states[i + 1]`` and gains ``rewards[i]`` points. ``subgoals`` maps a
    step to (subgoal, ids recalled)."""
    steps, score = [], 0
    for index, (action, text, points) in enumerate(zip(actions, states[1:], rewards, strict=True)):
        score += points
        subgoal, recalled = (subgoals or {}).get(index, (None, ()))
        steps.append(Step(action, action, plain(text), points, score, True, subgoal=subgoal or None, recalled=recalled))
    outcome = "solved" if score >= 100 else "failed"
    return Trajectory(BOIL, trial, "Your task is to boil water.", plain(states[0]), 0, tuple(steps), outcome)


def walk(text: str, trial: int = 1) -> Trajectory:
    """A trial from a short notation: ``"a b c+10 d"`` visits states a, b, c, d and gains 10 points on reaching c.
    The action that leads to state x is ``to x``."""
    names, rewards = [], []
    for word in text.split():
        name, _, points = word.partition("+")
        names.append(name)
        rewards.append(int(points or 0))
    return trajectory([f"room {name}" for name in names], [f"act {name}" for name in names[1:]], rewards[1:], trial)


class Answer(dict):
    """A model's answer: its fields are attributes, as those of a prediction are."""

    __getattr__ = dict.__getitem__


class Writer:
    """Stands in for the language model: numbered words for every skill, and a record of what was asked."""

    def __init__(self, malformed: Sequence[int] = (), same: bool = False, equal_words: bool = False):
        self.asked: list[tuple[Window, ...]] = []
        self.questions = 0
        self.malformed, self.same, self.equal_words = malformed, same, equal_words

    def ask(self, name: str, *, examples: Sequence[Window] = (), **_: Any) -> Answer | None:
        if name == "skill_equivalence":
            self.questions += 1
            return Answer(equivalent=[1] if self.same else [])
        self.asked.append(tuple(examples))
        if len(self.asked) - 1 in self.malformed:
            return None
        at = "there" if self.equal_words else f"place {len(self.asked)}"
        skill = Verbalization(f"on the way to {at}", f"reach {at}", (f"go to {at}", "wait"), f"you are {at}")
        return Answer(steps=skill.instructions, skill=skill)


def lend(
    ask: Callable[..., Any] = lambda *_, **__: None,
    handed_on: Sequence[str] = (),
    modules: Sequence[str] = (),
    writing: str | None = None,
    environment: Any = None,
    **runtime: Any,
) -> Any:
    """What an agent lends a memory: `ask` in place of its modules, and an attempt told by its variant and actions.
    `runtime` holds settings by the name of their memory, and an embedder."""
    usual = {"embed": words_embed, "stored": None, "examples": ""}
    usual |= dict.fromkeys(("entries", "reflections", "skills", "constitution"))
    return SimpleNamespace(
        ask=ask,
        reject=lambda *_: None,
        handed_on=frozenset(handed_on),
        modules=modules,
        method=SimpleNamespace(name="a method", writing=writing),
        runtime=SimpleNamespace(**(usual | runtime)),
        environment=environment or SimpleNamespace(action_templates="", render=show_states),
        tell_transcript=lambda attempt: f"{attempt.variant.key} trial {attempt.trial}",
        tell_outcome=lambda attempt: "\n".join(step.action for step in attempt.steps),
        list_reflection_fields=lambda *_: {},
    )


def skill_memory(settings: SkillSettings | None = None, writer: Writer | None = None, embed=hash_embed) -> SkillMemory:
    return SkillMemory(lend((writer or Writer()).ask, embed=embed, skills=settings))


PLATEAU = "a b c+10 d e f g+10 h i"
"""Played twice the same way, it holds two skills: a-b-c and e-f-g."""
FOUR = "a b c+5 d e f g+5 h i j k+5 l m n o+5"
"""Played twice the same way, it holds four."""
NOISY = [
    "a b c+10 d e f g+10 h i j+3",
    "a x c+10 d e f g+10 h k j+3 l",
    "b a c+10 y d e g+10 h i j+3",
    "a b c+10 d f e g+10 i h j+3 z+1",
]


def taught(text: str, writer: Writer | None = None, settings: SkillSettings | None = None, **other):
    memory = skill_memory(settings, writer, **other)
    for trial in (1, 2):
        memory.learn(walk(text, trial))
    return memory


def fact(text: str) -> Lesson:
    return Lesson("abstract", text)


def error(mistake: str, solution: str) -> Lesson:
    return Lesson("error", mistake, solution)


def left(text: str) -> Lesson:
    return Lesson("progress", text)
