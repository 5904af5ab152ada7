"""Every method is one of its own: what it asks its models differs from what any other method asks them.

Each row plays the same variants once, with the same answers: trials that fail, with and without points, then solved
ones that start from what the row hands on. So every memory is written, recalled, dropped and passed on.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from itertools import combinations

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments.benchmark import BUILT_IN, DEFAULT, get_benchmark
from rsso_dspy.memory.constitution import CATEGORIES, LASTING, ConstitutionSettings
from rsso_dspy.memory.reflections import ReflectionSettings
from rsso_dspy.offline import Explorer
from rsso_dspy.programs.agent import Agent
from rsso_dspy.programs.methods import METHODS
from rsso_dspy.programs.runtime import ResumeState
from rsso_dspy.sessions import Session, session
from tests.live import FAST, acting, model, prompt_of, scripted

WRITERS = [f"omnireflect-{writing}" for writing in ("neural", "symbolic", "neuro-symbolic")]

Requests = list[tuple[str, str]]
"""Role and messages of every request, in order."""
Walks = Sequence[tuple[str, Sequence[Sequence[str]]]]
"""Variants in order, each with the actions of its trials; the embedded actor plays a trial without actions."""


class Noted:
    """An engine that keeps what it is asked."""

    def __init__(self, role: str, engine, requests: Requests):
        self.role, self.engine, self.requests = role, engine, requests

    def complete(self, request):
        self.requests.append((self.role, prompt_of(request)))
        return self.engine.complete(request)

    def close(self):
        pass

    def __deepcopy__(self, memo):
        return self


def record_requests(live: Session, method: str, walks: Walks, **runtime) -> Requests:
    """Play the variants, each from what the row hands on of the one before it."""
    requests: Requests = []
    row, memories = METHODS[method], {}
    for variant, actions in walks:
        models: dict[tuple[str, int], object] = {}

        def lm(role, rollout, _temperature=None, actions=actions, models=models):
            said = actions[rollout - 1]
            engine = scripted(said) if role == "actor" and said else Explorer()
            return models.setdefault((role, rollout), model(Noted(role, engine, requests)))

        with acting(live, lm, **runtime):
            begun = ResumeState({name: data for name, data in memories.items() if name in row.memories})
            played = Agent(method)(variant=variant, trials=len(actions), start=begun)
        memories |= {name: data for name, data in played.memories.items() if name in row.streamed}
    return requests


def find_alike(requests: Mapping[str, Requests]) -> list[tuple[str, str]]:
    return [(one, other) for one, other in combinations(requests, 2) if requests[one] == requests[other]]


@pytest.mark.parametrize(
    ("protocol", "alike"),
    [
        ("sso-adapt/2-cap60", [("rsso", "rsso, again")]),
        # Without a skill, nothing is said of skills.
        ("adapt/3-cap60", [("react", "react-sso"), ("reflexion", "reflexion-sso"), ("rsso", "rsso, again")]),
    ],
)
def test_no_two_methods_ask_the_same_where_both_have_a_memory(protocol, alike):
    played = get_benchmark("pddl")
    first, *others = ((each.key, played.find_gold_path(each)) for each in played.tasks.train_sample("gripper", 3))
    most, part = 2 * len(first[1]), ["pick up", *first[1][:-1]]
    walks: Walks = [(first[0], [part, part, ["wait"]]), *((key, [path]) for key, path in others)]
    settings = {
        "budget": lambda _: most,
        "reflections": ReflectionSettings(size=1),
        "constitution": ConstitutionSettings(r_freq=2, s_freq=1),
    }
    told = [*FAST, "benchmark=pddl", f"protocol.preset={protocol}"]
    with session(load_config(overrides=told)) as live:
        requests = {method: record_requests(live, method, walks, **settings) for method in METHODS}
        requests["rsso, again"] = record_requests(live, "rsso", walks, **settings)
    assert find_alike(requests) == alike


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("kept", [CATEGORIES, LASTING], ids="+".join)
def test_the_three_writers_of_rules_ask_differently_on_every_benchmark(live, name, kept):
    if name == "alfworld" and find_spec("alfworld") is None:
        pytest.skip("the extra alfworld is not installed")
    table = get_benchmark(name).tasks
    task = "lifespan-longest-lived" if name == DEFAULT else table.names()[0]
    walks: Walks = [(variant.key, [()]) for variant in table.train_sample(task, 2)]
    settings = {"budget": lambda _: 6, "constitution": ConstitutionSettings(r_freq=2, categories=kept)}
    config = load_config(overrides=[*FAST, f"benchmark={name}"])
    with nullcontext(live) if name == DEFAULT else session(config) as used:
        requests = {method: record_requests(used, method, walks, **settings) for method in WRITERS}
    neural, symbolic, mixed = ([text for role, text in requests[each] if role == "advisor"] for each in WRITERS)
    assert len(neural) == len(mixed) > 0
    assert not symbolic
    assert not set(neural) & set(mixed)
    assert find_alike(requests) == []
