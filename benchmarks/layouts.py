"""How much of the actor's prompts a provider's cache could serve under each layout.

    python benchmarks/layouts.py                                # adapt/2, at most 60 steps a trial
    python benchmarks/layouts.py --preset sso-adapt/1-cap60

Plays rsso on one training variant of each task, three trials, at most 60 steps, on the embedded backend with the
embedder `lexical`, once per layout. A prompt's cacheable part is the longest beginning it shares with a prompt sent
before in the same unit, counted in word pieces of all-MiniLM-L6-v2, as there is no LLM tokenizer here. Effective tokens
count a cached one as a tenth, as most price lists do. Mean is that of the best trials: the layouts are to play alike.

Marked: what a provider charges that caches marked blocks only (Anthropic), worked out by its documented rules from the
blocks and marks that would be sent: it writes up to a mark at 1.25 of the price, and reads the longest beginning that
it has written and that ends with one of the 20 blocks before a mark; a beginning shorter than the model's minimum is
not kept.

The last line is one JSON object: the numbers of the table, by layout.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate, takewhile
from typing import NamedTuple

import dspy
from dspy.lm15 import Request, Response
from tokenizers import Tokenizer

from benchmarks.script import make_parser
from rsso_dspy.config import EMBEDDED, load_config
from rsso_dspy.embedders.weights import MINILM, find_weights
from rsso_dspy.environments.scienceworld import tasks
from rsso_dspy.experiment.session import Session, session
from rsso_dspy.explorer import Explorer
from rsso_dspy.lm.prompt_cache import mark_cacheable_prefix
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import Variant

READ, WRITTEN = 0.1, 1.25
"""Price of a token that is read from a cache, and of one that is written to it."""
LOOKBACK = 20
"""Blocks before a mark at whose ends a cache of marked blocks looks."""
SHORTEST = (1024, 2048, 4096)
"""Tokens of a beginning below which it keeps none, by model."""
BACK = 3
"""Prompts before that are compared; older ones share less."""


class MarkedPrompt(NamedTuple):
    blocks: tuple[str, ...]
    marks: tuple[int, ...]
    """Numbers of the blocks, from 1, behind which a mark stands."""


class PromptRecorder(Explorer):
    """The embedded model, keeping the prompts of one role as they would be sent to a provider of marked blocks."""

    def __init__(self, seed: int, prompts: list[MarkedPrompt]):
        super().__init__(seed=seed)
        self.prompts = prompts

    def complete(self, request: Request) -> Response:
        system = request.system
        head = system if isinstance(system, str) else "".join(part.text for part in system or ())
        plain = [{"role": message.role, "content": message.text} for message in request.messages]
        sent, mark = mark_cacheable_prefix(plain, dspy.settings.get("growing") or "")
        until = mark["prompt_cache"].prefix_until_index if mark else None
        blocks, marks = [head], [1] if mark else []
        for index, message in enumerate(sent):
            content = message["content"]
            blocks += [content] if isinstance(content, str) else [block["text"] for block in content]
            marks += [len(blocks)] if index == until else []
        self.prompts.append(MarkedPrompt(tuple(blocks), tuple(marks)))
        return super().complete(request)


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--preset", default="adapt/2-cap60")
    parser.add_argument("--tasks", default=",".join(tasks.tasks()))
    parser.add_argument("--layouts", default="paper,cache,append")
    parser.add_argument("--seed", type=int, default=0, help="of the units: the player's chance")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(find_weights(MINILM) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    rows = {}
    minimums = [f"marked, {shortest:,} or more" for shortest in SHORTEST]
    heads = ["mean", "steps", "tokens per step", "cacheable", "uncached per step", "effective per step", *minimums]
    print("| layout | " + " | ".join(heads) + " |\n|" + "---|" * (len(heads) + 1), flush=True)
    for layout in options.layouts.split(","):
        total: dict[str, float] = defaultdict(float)
        settings = [f"protocol.preset={options.preset}", "protocol.trials=3", f"protocol.layout={layout}"]
        settings += ["embedder.model=lexical", *options.set]
        points = []
        with session(load_config(overrides=settings)) as live:
            for task in options.tasks.split(","):
                prompts, best = collect_prompts(live, tasks.train_sample(task, n=1)[0], options.seed)
                count_tokens(prompts, tokenizer, total)
                points.append(best)
        amounts = {
            "mean": sum(points) / len(points),
            "steps": total["steps"],
            "tokens": total["all"] / total["steps"],
            "cacheable": total["cacheable"] / total["all"],
            "uncached": (total["all"] - total["cacheable"]) / total["steps"],
            "effective": (total["all"] - (1 - READ) * total["cacheable"]) / total["steps"],
            **{f"marked_{n}": total[f"{n}"] / total["steps"] for n in SHORTEST},
        }
        rows[layout] = {name: round(amount, 3) for name, amount in amounts.items()}
        forms = {"mean": ".1f", "cacheable": ".1%"}
        told = " | ".join(format(amount, forms.get(name, ",.0f")) for name, amount in amounts.items())
        print(f"| {layout} | {told} |", flush=True)
    print(json.dumps(rows))


def collect_prompts(live: Session, variant: Variant, seed: int) -> tuple[list[MarkedPrompt], float]:
    """Every actor prompt of a unit, in order, and the points of its best trial."""
    prompts: list[MarkedPrompt] = []

    def make_lm(role: str, rollout: int) -> dspy.LM:
        engine = PromptRecorder(rollout, prompts) if role == "actor" else Explorer(seed=rollout)
        return dspy.LM(EMBEDDED, engine=engine, cache=False, temperature=0.5)

    with live.activate_for_run(), replace(live.runtime, lm=make_lm).activate():
        result = Agent("rsso")(variant=variant, seed=seed)
    return prompts, result.points


def count_tokens(prompts: Sequence[MarkedPrompt], tokenizer: Tokenizer, total: dict[str, float]) -> None:
    """Add the tokens of a unit's prompts, those that a prompt before had at its beginning, and what they come to where
    marked blocks are cached."""
    before: list[list[int]] = []
    encode = lru_cache(maxsize=4096)(lambda block: tokenizer.encode(block, add_special_tokens=False).ids)
    written: dict[int, set[str]] = {shortest: set() for shortest in SHORTEST}
    for prompt in prompts:
        blocks = [encode(block) for block in prompt.blocks]
        ids = [token for block in blocks for token in block]
        total["steps"] += 1
        total["all"] += len(ids)
        total["cacheable"] += max((count_shared_tokens(ids, other) for other in before[-BACK:]), default=0)
        for shortest in SHORTEST:
            total[f"{shortest}"] += count_charged_tokens(
                prompt, [len(block) for block in blocks], written[shortest], shortest
            )
        before.append(ids)


def count_charged_tokens(prompt: MarkedPrompt, lengths: Sequence[int], written: set[str], shortest: int) -> float:
    """Tokens at full price that a prompt comes to, after which `written` holds its beginnings too."""
    beginnings, tokens = list(accumulate(prompt.blocks)), list(accumulate(lengths))
    marks = [mark for mark in prompt.marks if tokens[mark - 1] >= shortest]
    ends = [end for mark in marks for end in range(max(0, mark - LOOKBACK), mark) if beginnings[end] in written]
    read = tokens[max(ends)] if ends else 0
    new = max((tokens[mark - 1] for mark in marks), default=0)
    written |= {beginnings[mark - 1] for mark in marks}
    wrote = max(0, new - read)
    return READ * read + WRITTEN * wrote + (tokens[-1] - read - wrote)


def count_shared_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens in common at the beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


if __name__ == "__main__":
    main()
