"""What can be said of a benchmark without a model: one variant is played twice by the same actions, those of its
solution where the benchmark knows one, and a variant of every other task type once by its solution.

    with open_examination(benchmark, settings, "sso") as examination:
        examination.compare_replays()       # "up::0 was played twice by 1 action, with equal texts and points"

Each check returns what was seen, and raises `ContractViolation` for what is wrong.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain, pairwise
from time import monotonic
from typing import Any, cast

from rsso_dspy.environments import Environment, Interface, Transition, choose_interface, list_verbs
from rsso_dspy.environments.benchmark import Benchmark
from rsso_dspy.environments.contract import CheckedEnvironment, blame_code_of, describe_value, require_environment
from rsso_dspy.errors import ContractViolation, EnvironmentFailure, GoldUnknown
from rsso_dspy.records import SOLVED_SCORE, State, Variant

CANDIDATES = 5  # training variants that are asked for a short solution, at most
BLIND_STEPS = 5  # steps of a variant whose solution is unknown, at most
MOST_SECONDS = 5.0  # after which no further task type is played
NO_ACTION = "no such action"
SHOWN = 60  # characters of a text that a message quotes
NAMED = 3  # actions that a message names, at most


@dataclass(frozen=True, slots=True)
class Episode:
    """One play. ``possible[i]`` is what could be done in the state after ``i`` steps, where the benchmark lists it."""

    task: str
    action_templates: str
    points_at_reset: int
    start: State
    transitions: tuple[Transition, ...]
    possible: tuple[tuple[str, ...], ...]

    def list_values(self) -> list[tuple[str, Any]]:
        """Return all values in the order in which they came, each with its name."""
        values: list[tuple[str, Any]] = [
            ("the task", self.task),
            ("action_templates", self.action_templates),
            ("points_at_reset", self.points_at_reset),
            *_list_state("the first state", self.start),
        ]
        for number, transition in enumerate(self.transitions, start=1):
            step = f"step {number} ({transition.action!r:.{SHOWN}})"
            values += _list_state(step, transition.state)
            for field in fields(transition):
                if field.name != "state":
                    values.append((f"{step}: {field.name}", getattr(transition, field.name)))

        for number, actions in enumerate(self.possible):
            values.append((f"the possible actions after {number} steps", actions))
        return values


def _list_state(name: str, state: State) -> list[tuple[str, Any]]:
    return [(f"{name}: {field.name}", getattr(state, field.name)) for field in fields(state)]


@contextmanager
def open_examination(
    benchmark: Benchmark, settings: Any, interface: Interface, simplification: str = ""
) -> Iterator["Examination"]:
    """Open an examination with an environment of its own. `settings`: section `environment` of the configuration."""
    with blame_code_of(benchmark.make_environment, "before the first reset"):
        environment = require_environment(benchmark.make_environment(settings, lambda: False))
    try:
        yield Examination(benchmark, environment, settings, interface, simplification)
    finally:
        environment.close()


@dataclass(eq=False)
class Examination:
    benchmark: Benchmark
    environment: CheckedEnvironment
    settings: Any
    interface: Interface
    simplification: str

    @property
    def checks(self) -> dict[str, Callable[[], str]]:
        """Name to check, in the order in which they are made."""
        return {
            "replay": self.compare_replays,
            "points": self.check_points,
            "lists": self.check_lists,
            "templates": self.check_templates,
            "leaks": self.find_leaks,
        }

    # What is played.

    @cached_property
    def variants(self) -> list[Variant]:
        """Training variants of one task type, or held-out ones of a benchmark that has no others."""
        table = self.benchmark.limit_to_data(self.settings.data).tasks
        tasks = dict.fromkeys([*table.examples, *table.names()])

        trained = (table.train_sample(task, CANDIDATES) for task in tasks)
        held_out = (table.held_out(task, n=CANDIDATES) for task in tasks)
        for sample in chain(trained, held_out):
            if sample:
                return self._simplify(sample)

        raise ContractViolation(f"{self.benchmark.name} has no variant; expected: one at least in its TaskTable")

    def _simplify(self, variants: Iterable[Variant]) -> list[Variant]:
        return [self.benchmark.simplify(variant, self.simplification) for variant in variants]

    @cached_property
    def example(self) -> tuple[Variant, tuple[str, ...]]:
        """A training variant with the actions that solve it: a short one, if possible of more than one action. No
        actions where no solution is known. Raises `EnvironmentFault` for an exception of the benchmark's code, and
        `ContractViolation` for a solution that is none."""
        return self._find_example(self.variants)

    def _find_example(self, variants: Sequence[Variant]) -> tuple[Variant, tuple[str, ...]]:
        """Return one of these variants with the actions that solve it, as `example`."""
        benchmark = self.benchmark
        if benchmark.gold_path is None:
            return variants[0], ()

        data = benchmark.locate_data(self.settings.data)
        lengths = self._read_lengths(variants)
        example: tuple[Variant, tuple[str, ...]] = variants[0], ()
        for variant in sorted(lengths, key=lambda variant: lengths[variant]):
            try:
                with blame_code_of(benchmark.gold_path, f"for {variant.key}"):
                    solution = benchmark.find_gold_path(variant, data, self.interface)
            except GoldUnknown:
                continue
            self._check_solution(variant, solution)
            example = variant, solution
            if len(solution) > 1:
                break
        return example

    def _read_lengths(self, variants: Sequence[Variant]) -> dict[Variant, int]:
        """Return the gold lengths of those training variants whose length is known without computing it."""
        budget = self.benchmark.budget
        lengths: dict[Variant, int] = {}
        for variant in variants:
            if variant.split != "train":
                continue
            try:
                with blame_code_of(budget.gold_length, f"for {variant.key}"):
                    if budget.is_known(variant):
                        lengths[variant] = budget.gold_length(variant)
            except GoldUnknown:
                continue
        return lengths

    def _check_solution(self, variant: Variant, solution: Sequence[object]) -> None:
        takes_lines = getattr(self.environment, "action_form", "line") == "text"
        for number, action in enumerate(solution):
            name = f"gold_path({variant.key})[{number}]"
            if not isinstance(action, str) or not action.strip():
                raise ContractViolation(f"{name} = {describe_value(action)}; expected: a text that is not empty")
            if "\n" in action.strip() and not takes_lines:
                raise ContractViolation(
                    f"{name} has several lines, and the environment takes one: a model's action would be cut to its "
                    'first; expected: action_form = "text" in the environment'
                )

    @property
    def solution(self) -> tuple[str, ...]:
        """The actions of the example; none where the benchmark's code fails, which `check_points` tells."""
        try:
            return self.example[1]
        except EnvironmentFailure:
            return ()

    @property
    def variant(self) -> Variant:
        return self.example[0] if self.solution else self.variants[0]

    @cached_property
    def actions(self) -> tuple[str, ...]:
        """The actions of both plays: the solution; without one, the first possible actions or the templates."""
        if self.solution:
            return self.solution
        if self.benchmark.lists_actions:
            return self._take_first_actions()
        self._reset(self.variant)
        return (*self._list_templates(), NO_ACTION)

    @cached_property
    def episode(self) -> Episode:
        return self._play(self.actions)

    def _reset(self, variant: Variant) -> State:
        choose_interface(self.environment, self.interface)  # type: ignore[arg-type]
        return self.environment.reset(variant)

    def _list_possible(self) -> tuple[str, ...]:
        if not self.benchmark.lists_actions:
            return ()
        return tuple(getattr(self.environment, "admissible_actions", list)())

    def _list_templates(self) -> list[str]:
        _, _, templates = self.environment.action_templates.rpartition("Templates:")
        return [line.strip() for line in templates.splitlines() if line.strip()]

    def _take_first_actions(self) -> tuple[str, ...]:
        actions = list[str]()
        self._reset(self.variant)
        for _ in range(BLIND_STEPS):
            if not (possible := self._list_possible()):
                break
            actions.append(possible[0])
            if self.environment.step(possible[0]).done:
                break
        return tuple(actions)

    def _play(self, actions: Sequence[str]) -> Episode:
        start = self._reset(self.variant)
        environment = self.environment
        about = environment.task, environment.action_templates, environment.points_at_reset
        transitions = list[Transition]()
        possible = [self._list_possible()]
        for action in actions:
            transitions.append(environment.step(action))
            if transitions[-1].done or transitions[-1].stalled:
                break
            possible.append(self._list_possible())
        environment.render([start, *(transition.state for transition in transitions)])
        return Episode(*about, start, tuple(transitions), tuple(possible))

    def _play_something_else(self) -> None:
        """Play another variant by actions that mean nothing, which an environment answers like any other."""
        self._reset(self.variants[-1])
        for action in (NO_ACTION, ""):
            if self.environment.step(action).done:
                break

    # What is checked.

    def check_simulator(self) -> str:
        return self.benchmark.smoke_test(self.settings, cast(Environment, self.environment))

    def compare_replays(self) -> str:
        first = self.episode
        self._play_something_else()
        second = self._play(self.actions)

        pairs = zip(first.list_values(), second.list_values(), strict=False)
        for (name, first_value), (other_name, second_value) in pairs:
            if (name, first_value) != (other_name, second_value):
                first_text, second_text = quote_difference(first_value, second_value)
                raise ContractViolation(
                    f"{self.variant.key} played twice by the same actions differs first at {name}: it was {first_text} "
                    f"and then {second_text}; expected: the same texts and points, whatever was played before"
                )
        if len(first.list_values()) != len(second.list_values()):
            steps = f"{len(first.transitions)} steps and then {len(second.transitions)}"
            raise ContractViolation(f"{self.variant.key} played twice by the same actions took {steps}")
        return f"{self.variant.key} played twice by {_count(self.actions)} gave equal texts and points"

    def check_points(self) -> str:
        if not self.example[1]:
            return "no solution is known, so none was played"

        transitions = self.episode.transitions
        score = transitions[-1].score
        if score < SOLVED_SCORE:
            refused = [transition.action for transition in transitions if not transition.understood]
            why = f"; not understood: {', '.join(refused[:NAMED])}" if refused else ""
            raise ContractViolation(
                f"the solution of {self.variant.key} earns {score} points after {len(transitions)} of "
                f"{_count(self.solution)}{why}; expected: {SOLVED_SCORE}"
            )
        other_types = self._play_other_types()
        beside = f", and so do those of {other_types}" if other_types else ""
        return f"the solution of {self.variant.key} earns {score} points with {_count(transitions)}{beside}"

    def _play_other_types(self) -> str:
        """Play a solution of the other task types, of as many as `MOST_SECONDS` allow, and say of how many."""
        table = self.benchmark.limit_to_data(self.settings.data).tasks
        tasks = [task for task in table.names() if task != self.variant.task and table.train_sample(task, 1)]
        last = monotonic() + MOST_SECONDS
        count = 0
        for task in tasks:
            if monotonic() > last:
                break
            variant, solution = self._find_example(self._simplify(table.train_sample(task, 1)))
            if solution:
                self._check_full_score(variant, solution)
                count += 1
        return f"{count} of {len(tasks)} other task types" if count else ""

    def _check_full_score(self, variant: Variant, solution: Sequence[str]) -> None:
        self._reset(variant)
        score = 0
        for action in solution:
            transition = self.environment.step(action)
            score = transition.score
            if transition.done or transition.stalled:
                break
        if score < SOLVED_SCORE:
            raise ContractViolation(
                f"the solution of {variant.key} earns {score} points after {_count(solution)}; expected: {SOLVED_SCORE}"
            )

    def check_lists(self) -> str:
        if not self.benchmark.lists_actions:
            return "actions are free, so none are listed"
        if not hasattr(self.environment, "admissible_actions"):
            raise ContractViolation("lists_actions is True, and the environment has no admissible_actions")

        for number, actions in enumerate(self.episode.possible):
            if not actions:
                raise ContractViolation(
                    f"no action is possible after {number} steps of {self.variant.key}, which has not ended; expected: "
                    "one at least"
                )
        possible = self.episode.possible[0]
        refused = [action for action in possible if not self._is_accepted(action)]
        if refused:
            raise ContractViolation(
                f"{len(refused)} of {len(possible)} possible actions are not understood at the start of "
                f"{self.variant.key}: {', '.join(refused[:NAMED])}; expected: each is understood"
            )
        return f"{len(possible)} possible actions at the start of {self.variant.key}, each of them understood"

    def _is_accepted(self, action: str) -> bool:
        self._reset(self.variant)
        return self.environment.step(action).understood

    def check_templates(self) -> str:
        self._reset(self.variant)
        if not self.environment.action_templates.strip():
            raise ContractViolation("action_templates is empty; expected: the forms of actions, a line each")

        if re.search(r"(?mi)^templates:\s*$", self.environment.action_templates) is None:
            return "the form of actions is described, and no template is listed"
        verbs = list_verbs(self.environment)  # type: ignore[arg-type]
        unknown = [action for action in self.solution if action.split()[0].lower() not in verbs]
        if unknown:
            raise ContractViolation(
                f"{unknown[0]!r} of the solution of {self.variant.key} begins with no verb of the action templates, "
                f"which are: {', '.join(sorted(verbs))}; expected: a template for each action of a solution"
            )
        if not self.solution:
            return f"{len(verbs)} verbs"
        return f"{len(verbs)} verbs, with those of all actions of a solution"

    def find_leaks(self) -> str:
        if not self.solution:
            return "no solution is known, so none was looked for"

        actions = self.solution[: len(self.episode.transitions)]
        for place, text in self._list_shown_texts().items():
            if leaked := find_leaked_actions(text, actions):
                raise ContractViolation(
                    f"{place} of {self.variant.key} tells its solution: {', then '.join(leaked)}; expected: a text "
                    "that an actor may see"
                )
        return f"no text tells the solution of {self.variant.key}"

    def _list_shown_texts(self) -> dict[str, str]:
        """Return what an actor sees ahead of its first action, without the possible actions. A template without
        arguments is an action itself, and is left out of the texts that explain actions."""
        episode = self.episode
        templates = self._find_whole_actions()
        start = [episode.start.observation, episode.start.look, episode.start.inventory]
        return {
            "the task": episode.task,
            "the action templates": leave_out(episode.action_templates, templates),
            "About": leave_out(self.benchmark.hints.about, templates),
            "the first state": leave_out_list("\n".join(start), episode.possible[0]),
        }

    def _find_whole_actions(self) -> list[str]:
        """Return the templates that are actions as they stand, and that no template with arguments covers."""
        templates = self._list_templates()
        patterns = [make_pattern(template) for template in templates if has_argument(template)]

        actions = []
        for template in templates:
            is_covered = any(pattern.fullmatch(template) for pattern in patterns)
            if not has_argument(template) and not is_covered:
                actions.append(template)
        return actions


# Texts.


def _count(actions: Sequence[object]) -> str:
    if len(actions) == 1:
        return "1 action"
    return f"{len(actions)} actions"


def quote_difference(before: Any, after: Any) -> tuple[str, str]:
    """Return two values as a message shows them: of texts the part where they differ."""
    if not isinstance(before, str) or not isinstance(after, str):
        return f"{before!r:.{SHOWN}}", f"{after!r:.{SHOWN}}"

    place = 0
    while place < len(before) and before[place : place + 1] == after[place : place + 1]:
        place += 1
    begin = max(0, place - SHOWN // 2)
    end = begin + SHOWN
    return repr(before[begin:end]), repr(after[begin:end])


ARGUMENT = re.compile(r"\b[A-Z][A-Z0-9_]*\b")  # a word in capitals, such as OBJ


def has_argument(template: str) -> bool:
    return ARGUMENT.search(template) is not None


def make_pattern(template: str) -> re.Pattern[str]:
    """Return what matches the actions of a template."""
    parts = [re.escape(part) for part in ARGUMENT.split(template)]
    return re.compile(".+".join(parts), re.IGNORECASE)


def simplify(text: str) -> str:
    return " ".join(text.lower().split())


def make_finder(action: str) -> re.Pattern[str]:
    """Return what finds an action as whole words of a simplified text."""
    words = re.escape(simplify(action))
    return re.compile(rf"(?<!\w){words}(?!\w)")


def find_leaked_actions(text: str, solution: Sequence[str]) -> tuple[str, ...]:
    """Return two consecutive actions of a solution that stand in a text in this order, or the one action of a solution
    of one; empty if the text holds none."""
    text = simplify(text)
    if len(solution) == 1:
        return tuple(solution) if make_finder(solution[0]).search(text) else ()

    for first, second in pairwise(solution):
        place = make_finder(first).search(text)
        if place is not None and make_finder(second).search(text, place.end()):
            return first, second
    return ()


def leave_out(text: str, actions: Sequence[str]) -> str:
    """Return a simplified text without these actions."""
    text = simplify(text)
    for action in sorted(actions, key=len, reverse=True):
        text = make_finder(action).sub(";", text)
    return text


def leave_out_list(text: str, possible: Sequence[str]) -> str:
    """Return a simplified text without the list of the possible actions, if it holds one: the last mention of each."""
    text = simplify(text)
    finders = [make_finder(action) for action in sorted(possible, key=len, reverse=True)]
    if not all(finder.search(text) for finder in finders):
        return text

    for finder in finders:
        places = list(finder.finditer(text))
        if places:  # it may have stood in a longer one alone
            last = places[-1]
            text = text[: last.start()] + ";" + text[last.end() :]
    return text
