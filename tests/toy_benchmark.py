"""A benchmark of another package, whole: count to a number by adding, or down from it by taking away. No simulator."""

from rsso_dspy.environments import Environment, Goal, Transition
from rsso_dspy.environments.benchmark import Benchmark, Budget, Hints
from rsso_dspy.environments.splits import TaskTable
from rsso_dspy.errors import SplitError
from rsso_dspy.records import State

TEMPLATES = "An action adds or takes away NUMBER, which is 1 to 3.\nTemplates:\nadd NUMBER\ntake NUMBER away"
ROW = {"train": (0, 5), "dev": (6, 8), "test": (9, 14)}


class Counting(Environment):
    """Every step towards the number earns a third of the points, the number itself the rest."""

    action_templates = TEMPLATES

    def reset(self, variant):
        self.variant, self.score, far = variant, 0, 2 + variant.index % 3
        self.at, self.end = (0, far) if variant.task == "up" else (far, 0)
        self.task = f"Count from {self.at} to {self.end}."
        return State("You begin.", f"The number is {self.at}.", "")

    def step(self, action):
        words, before = action.lower().split(), self.score
        move = {"add": 1, "take": -1}.get(words[0], 0) if words else 0
        understood = move != 0 and len(words) > 1 and words[1] in ("1", "2", "3")
        if understood:
            self.at += move * int(words[1])
            self.score = 100 if self.at == self.end else max(self.score, 100 * min(abs(self.at), 1) // 3)
        said = f"You are at {self.at}." if understood else "That is no action."
        state = State(said, f"The number is {self.at}.", "")
        return Transition(state, " ".join(words), self.score - before, self.score, understood, done=self.score == 100)

    def goal_progress(self):
        if self.variant.split == "test":
            raise SplitError("held out")
        return (Goal("Arrive", self.score == 100, True),)


def walk_gold_path(variant, *_):
    """To the number, by steps of 3 at most."""
    far = 2 + variant.index % 3
    sizes = [min(3, far - done) for done in range(0, far, 3)]
    return [f"add {size}" if variant.task == "up" else f"take {size} away" for size in sizes]


BENCHMARK = Benchmark(
    name="toy",
    version="1.0",
    tasks=TaskTable({"up": ROW, "down": ROW}),
    make_environment=lambda settings, stopped: Counting(),  # noqa: ARG005
    budget=Budget(lambda variant: 2 + variant.index % 2),
    action_templates={"sso": TEMPLATES},
    gold_path=walk_gold_path,
    hints=Hints(goals={"Arrive": ("a number reached", ("Always stop at the number.",))}),
)
