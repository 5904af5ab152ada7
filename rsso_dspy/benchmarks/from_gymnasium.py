"""Makes a benchmark of any text environment with `reset` and `step`, in the manner of Gymnasium.

    from_gymnasium("MyText-v0", name="my-text", actions="go DIRECTION\\ntake OBJ")
    from_gymnasium({"empty": "MiniGrid-Empty-5x5-v0"}, name="grid", describe=describe)
    from_gymnasium(lambda variant: make_game(variant.index), name="games", actions="...")

The index of a variant is the seed of its reset. Both forms of `step` are understood: Gymnasium's (observation, reward,
terminated, truncated, info) and the older (observation, reward, done, info).
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rsso_dspy.environments import TextEnvironment, Transition
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import NotInstalled, SimulatorDied, UsageError
from rsso_dspy.records import SOLVED_SCORE, Lesson, State, Variant

SEEDS = {"train": (0, 49), "dev": (50, 69), "test": (70, 99)}
"""First and last seed of each split."""

TASK_KEYS = ("task", "objective", "mission", "goal", "instruction")
"""Where the words of a task are looked for: in `info`, in an observation that is a dict, on the environment."""

TEXT_KEYS = ("text", "observation", "obs", "feedback", "description")
"""Where the text of an observation that is a dict is looked for."""

LIST_KEYS = ("admissible_commands", "valid_actions", "admissible_actions", "available_actions")
"""Where `info` may list the possible actions."""

CHECK = "check valid actions"
"""The action that asks which actions are possible; the environment does not see it."""

Describe = Callable[[Any], str]
Points = Callable[[float, bool, Mapping[str, Any]], float]
World = Any
"""An environment with ``reset`` and ``step``."""


def score_won_or_share(total: float, terminated: bool, info: Mapping[str, Any]) -> float:
    """100 if `info` says ``won``, or if the episode ended with a positive sum of rewards and `info` says nothing of
    winning or losing; otherwise that sum as a share of 1, at most 99."""
    if info.get("won") or (terminated and total > 0 and "won" not in info and not info.get("lost")):
        return SOLVED_SCORE
    return max(0.0, min(SOLVED_SCORE - 1.0, SOLVED_SCORE * total))


def from_gymnasium(
    worlds: "str | World | Callable[[Variant], World] | Mapping[str, str | Callable[[Variant], World]]",
    *,
    name: str = "",
    version: str = "1",
    actions: "str | Sequence[str] | None" = None,
    describe: Describe | None = None,
    score: Points = score_won_or_share,
    seeds: Mapping[str, Sequence[int]] = SEEDS,
    steps: int = 50,
    rewards: str = "per step",
    rules: Sequence[str] = (),
) -> Benchmark:
    """Return a benchmark of a text environment.

    - ``worlds``: the id of a Gymnasium environment, an environment, a function from a variant to an environment, or a
      mapping of task types to ids or functions. An environment object is one simulator: play it with ``--jobs 1``. Its
      `reset` or a method `seed` takes the index of a variant; only a function may make environments that take none.
    - ``name``: of the benchmark, and of its task type if there is only one (default: from the id).
    - ``actions``: action templates as one text, or the names of a discrete space's actions in order (default: the names
      of ``env.unwrapped.actions``).
    - ``describe``: turns an observation into text (default: texts, and dicts with a text).
    - ``score``: (sum of rewards, whether the episode ended, info) to points of 100; 100 is solved.
    - ``seeds``: first and last seed of the splits train, dev and test.
    - ``steps``: budget of a trial.
    - ``rewards``: ``per step``, or ``total`` if `step` returns the points so far, as TextWorld's does.
    - ``rules``: rules of thumb, for symbolic rule writers.

    Raises `UsageError` for a wrong argument, and `NotInstalled` if an id is given and gymnasium is not installed.
    """
    table = worlds if isinstance(worlds, Mapping) else {_find_name(worlds, name): worlds}
    if not table:
        raise UsageError("from_gymnasium needs at least one environment")
    if set(seeds) != {"train", "dev", "test"}:
        raise UsageError(f"seeds must name train, dev and test, not {', '.join(seeds) or 'nothing'}")
    if rewards not in ("per step", "total"):
        raise UsageError(f"rewards must be 'per step' or 'total', not {rewards!r}")
    if steps < 1:
        raise UsageError(f"steps must be at least 1, not {steps}")
    own = name or next(iter(table))
    held = [world for world in table.values() if hasattr(world, "reset")]
    makers = {task: _make_maker(world) for task, world in table.items()}
    own_makers = frozenset(task for task, world in table.items() if callable(world) and not hasattr(world, "reset"))
    lessons, told = tuple(Lesson("abstract", rule) for rule in rules), describe or describe_text
    settings = _Reading(makers, actions, told, score, rewards == "total", lessons, held, own_makers)
    gold = math.ceil(steps / 1.5)
    return Benchmark(
        name=own,
        version=version,
        table=TaskTable({task: dict(seeds) for task in table}),
        environment=lambda _settings, _stopped: WrappedWorld(settings),
        action_templates=settings.describe_actions(None),
        gold_length=lambda _variant: gold,
        admissible="short",
    )


@dataclass(frozen=True, eq=False)
class _Reading:
    """How environments are made, and how their answers are read."""

    makers: Mapping[str, Callable[[Variant], World]]
    actions: "str | Sequence[str] | None"
    describe: Describe
    score: Points
    total: bool
    rules: tuple[Lesson, ...]
    held: Sequence[World]
    made_for_variants: frozenset[str]
    """Task types whose environments a function makes of a variant; their resets need no seed."""

    def list_names(self, world: World | None) -> tuple[str, ...]:
        """Names of the actions of a discrete space, in order; empty where actions are texts."""
        if isinstance(self.actions, str):
            return ()
        if self.actions is not None:
            return tuple(self.actions)
        named = getattr(getattr(world, "unwrapped", world), "actions", None)
        members = getattr(named, "__members__", None)
        if members is None:
            return ()
        names = tuple(name for name, _ in sorted(members.items(), key=lambda each: int(each[1])))
        return names[: getattr(getattr(world, "action_space", None), "n", None)]

    def describe_actions(self, world: World | None) -> str:
        """The text of the action templates."""
        listed = self.actions if isinstance(self.actions, str) else "\n".join([*self.list_names(world), CHECK])
        if "Templates:" in listed:
            return listed
        return f"Each action follows one of the templates below.\nTemplates:\n{listed}"


def describe_text(observation: Any) -> str:
    """The text of an observation that is one, or a dict that holds one. Raises `UsageError` for any other."""
    if isinstance(observation, str):
        return observation
    if isinstance(observation, Mapping):
        texts = [observation[key] for key in TEXT_KEYS if isinstance(observation.get(key), str)]
        if texts:
            return "\n".join(texts)
    raise UsageError(
        f"an observation of type {type(observation).__name__} is no text: pass describe=, a function from an "
        "observation to text"
    )


class WrappedWorld(TextEnvironment):
    """One such environment, as an `Environment`. A variant's index is the seed of its reset."""

    def __init__(self, reading: _Reading):
        self._reading = reading
        self._world: World | None = None
        self._info: Mapping[str, Any] = {}
        self._total = 0.0
        self._points = 0
        self._done = False
        self.task = ""
        self.rules_of_thumb = reading.rules

    @property
    def action_templates(self) -> str:
        return self._reading.describe_actions(self._world)

    def reset(self, variant: Variant) -> State:
        """Start the variant afresh. Raises `UsageError` for observations and actions that cannot be put into words."""
        self._close_made()
        self._world = self._reading.makers[variant.task](variant)
        answer = _reset_world(self._world, variant.index, variant.task in self._reading.made_for_variants)
        pair = isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[1], Mapping)
        observation, self._info = answer if pair else (answer, {})
        self.task = _find_task(self._world, observation, self._info)
        self._total, self._points, self._done = 0.0, 0, False
        if not isinstance(self._reading.actions, str) and not self._reading.list_names(self._world):
            raise UsageError(f"the actions of {variant.task} have no names: pass actions=, their templates or names")
        return State(self._reading.describe(observation), "", "")

    def step(self, action: str) -> Transition:
        """One action as the actor wrote it."""
        words = " ".join(action.split())
        names = [each.lower() for each in self._reading.list_names(self._require_world())]
        if self._done or (names and words.lower().rstrip(".") not in (*names, CHECK)):
            text = "The episode is over." if self._done else "No known action matches that input."
            return Transition(State(text, "", ""), words, 0, self._points, False, done=self._done)
        if words.lower().rstrip(".") == CHECK and (listed := self.admissible_actions()):
            told = f"You can take the following actions: {', '.join(listed)}"
            return Transition(State(told, "", ""), words, 0, self._points, True, done=False)
        sent = names.index(words.lower().rstrip(".")) if names else words
        observation, reward, ended, stopped, self._info = _read_step(self._require_world().step(sent))
        self._total = reward if self._reading.total else self._total + reward
        before, self._points = self._points, round(self._reading.score(self._total, ended, self._info))
        self._done = ended or stopped or self._points >= SOLVED_SCORE
        state = State(self._reading.describe(observation), "", "")
        return Transition(state, words, self._points - before, self._points, True, done=self._done)

    def admissible_actions(self) -> Sequence[str]:
        """The actions that `info` lists, or all of a discrete space; none where neither is known."""
        for key in LIST_KEYS:
            if isinstance(self._info.get(key), Sequence):
                return list(self._info[key])
        return list(self._reading.list_names(self._require_world()))

    def close(self) -> None:
        self._close_made()
        self._world = None
        super().close()

    def _close_made(self) -> None:
        """Close an environment that was made here; one that the caller holds is left open."""
        close = getattr(self._world, "close", None)
        if close is not None and not any(self._world is held for held in self._reading.held):
            close()

    def _require_world(self) -> World:
        if self._world is None:
            raise SimulatorDied("no variant is being played: reset the environment first.")
        return self._world


def _find_name(worlds: Any, name: str) -> str:
    if name:
        return name
    if isinstance(worlds, str):
        return worlds.rpartition(":")[2].replace("/", "-")
    spec = getattr(worlds, "spec", None)
    if spec is None:
        raise UsageError("pass name=: the environment has none")
    return str(spec.id).replace("/", "-")


def _make_maker(world: Any) -> Callable[[Variant], World]:
    """A function that gives the environment of a variant."""
    if isinstance(world, str):
        return lambda _variant: _make_by_id(world)
    if hasattr(world, "reset") and hasattr(world, "step"):
        return lambda _variant: world
    if callable(world):
        return world
    raise UsageError(
        f"{world!r} is neither the id of an environment, nor has it reset and step, nor is it a function of a variant"
    )


def _make_by_id(world: str) -> World:
    try:
        import gymnasium
    except ModuleNotFoundError:
        raise NotInstalled("gymnasium is not installed: pip install 'rsso-dspy[gym]'") from None
    return gymnasium.make(world)


def _reset_world(world: World, seed: int, made_for_variant: bool) -> Any:
    accepted = inspect.signature(world.reset).parameters
    if "seed" in accepted or any(each.kind is each.VAR_KEYWORD for each in accepted.values()):
        return world.reset(seed=seed)
    if callable(set_seed := getattr(world, "seed", None)):
        set_seed(seed)
    elif not made_for_variant:
        raise UsageError(
            f"neither reset nor seed of {type(world).__name__} takes a seed, so all variants would be the same: pass a "
            "function from a variant to its environment"
        )
    return world.reset()


def _read_step(answer: Any) -> tuple[Any, float, bool, bool, Mapping[str, Any]]:
    """Observation, reward, whether the episode ended, whether it was cut short, info."""
    if len(answer) == 5:
        observation, reward, ended, stopped, info = answer
        return observation, float(reward), bool(ended), bool(stopped), info or {}
    observation, reward, ended, info = answer
    stopped = bool(ended) and bool((info or {}).get("TimeLimit.truncated"))  # gym's sign that steps ran out
    return observation, float(reward), bool(ended) and not stopped, stopped, info or {}


def _find_task(world: World, observation: Any, info: Mapping[str, Any]) -> str:
    """The words of the task; empty if nothing says them."""
    shown = observation if isinstance(observation, Mapping) else {}
    own = getattr(world, "unwrapped", world)
    for key in TASK_KEYS:
        for found in (info.get(key), shown.get(key), getattr(own, key, None)):
            if isinstance(found, str) and found:
                return found
    return "Do what the first observation asks for."
