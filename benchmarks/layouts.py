"""How much of the actor's prompts a provider's cache could serve under each layout.

    python benchmarks/layouts.py

Plays rsso on one held-out variant of each task, three trials, at most 60 steps, on the embedded backend, once per
layout. A prompt's cacheable part is the longest beginning it shares with a prompt sent before in the same unit, counted
in word pieces of all-MiniLM-L6-v2, as there is no LLM tokenizer here. Effective tokens count a cached one as a tenth,
as most price lists do. The last line is one JSON object; its ratio is effective tokens per step, paper to cache.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import dspy
from dspy.lm15 import Request, Response
from tokenizers import Tokenizer

from rsso_dspy.backends.embedded import Explorer
from rsso_dspy.backends.embedders.weights import MINILM, find_weights
from rsso_dspy.config import EMBEDDED, load
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.programs.agent import Agent
from rsso_dspy.protocol.session import Session, session
from rsso_dspy.trajectory import Variant

DISCOUNT = 0.1
BACK = 3
"""Prompts before that are compared; older ones share less."""


class Recorder(Explorer):
    """The embedded model, keeping the prompts of one role."""

    def __init__(self, seed: int, prompts: list[str]):
        super().__init__(seed=seed)
        self.prompts = prompts

    def complete(self, request: Request) -> Response:
        system = request.system
        head = system if isinstance(system, str) else "".join(part.text for part in system or ())
        self.prompts.append("\n".join([head, *(message.text for message in request.messages)]))
        return super().complete(request)


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    tokenizer = Tokenizer.from_file(str(find_weights(MINILM) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rows = {}
    print("| layout | steps | tokens per step | cacheable | effective tokens per step |")
    print("|---|---|---|---|---|")
    for layout in ("paper", "cache"):
        total: dict[str, int] = defaultdict(int)
        settings = ["protocol.preset=sso-adapt/1-cap60", "protocol.trials=3", f"protocol.layout={layout}"]
        with session(load(overrides=settings)) as live:
            for variant in (tasks.held_out(task, n=1)[0] for task in tasks.tasks()):
                count(prompts_of(live, variant), tokenizer, total)
        effective = total["all"] - (1 - DISCOUNT) * total["cacheable"]
        rows[layout] = effective / total["steps"]
        print(
            f"| {layout} | {total['steps']:,} | {total['all'] / total['steps']:,.0f} | "
            f"{total['cacheable'] / total['all']:.1%} | {rows[layout]:,.0f} |"
        )
    print(json.dumps({"ratio": round(rows["paper"] / rows["cache"], 3)}))


def prompts_of(live: Session, variant: Variant) -> list[str]:
    """Every actor prompt of a unit, in order."""
    prompts: list[str] = []

    def lm(role: str, rollout: int) -> dspy.LM:
        engine = Recorder(rollout, prompts) if role == "actor" else Explorer(seed=rollout)
        return dspy.LM(EMBEDDED, engine=engine, cache=False, temperature=0.5)

    with live.here(), replace(live.runtime, lm=lm).active():
        Agent("rsso")(variant=variant)
    return prompts


def count(prompts: Sequence[str], tokenizer: Tokenizer, total: dict[str, int]) -> None:
    """Add the tokens of a unit's prompts, and those that a prompt before had at its beginning."""
    before: list[list[int]] = []
    for prompt in prompts:
        ids = tokenizer.encode(prompt, add_special_tokens=False).ids
        total["steps"] += 1
        total["all"] += len(ids)
        total["cacheable"] += max((shared(ids, other) for other in before[-BACK:]), default=0)
        before.append(ids)


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens in common at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


if __name__ == "__main__":
    main()
