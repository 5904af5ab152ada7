"""The product's prompt beside the plainest one, on a real model: what each earns and costs on the same units.

    pip install 'rsso-dspy[local,babyai]'
    python benchmarks/prompts.py --gguf MODEL.gguf [--benchmark babyai] [--units GoToRedBall::200,...]
    ALFWORLD_DATA=DIR python benchmarks/prompts.py --gguf MODEL.gguf --benchmark alfworld

llama.cpp's own server (PyPI `xllamacpp`) serves the file in this process, or `--base-url` names one. The plain prompt
is no part of the product: three sentences of instruction, then a message a step with the observation and the possible
actions, answered by the action alone. Units are of development splits (of PDDL, training problems), one
trial each at temperature 0, played in turn by both.

The last line is one JSON object: the sums of each prompt.
"""

import hashlib
import json
import logging
import os
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from benchmarks.script import exit_lacking, make_parser, parse_options, print_head, print_row
from rsso_dspy.config import load_config
from rsso_dspy.environments import choose_interface
from rsso_dspy.programs.agent import Agent
from rsso_dspy.sessions import Session, session

NAME = "model"
LEVELS = ["GoToRedBall", "GoToObjS6", "GoToLocalS8N7", "Open", "Pickup", "PickupLoc", "GoToDoor", "OpenDoorLoc"]
UNITS = {
    "alfworld": [],  # the first development game of each type
    "babyai": [f"{level}::{seed}" for level in LEVELS for seed in (200, 201)],
    "pddl": ["blockworld::0", "gripper::0", "barman::0", "tyreworld::0"],
    "scienceworld": ["find-plant::150", "find-living-thing::150", "use-thermometer::280"],
}
INSTRUCTION = (
    "You are playing a text game. Solve the task, one action at a time. Answer with one of the possible actions and "
    "nothing else."
)
LONGEST_ANSWER, CONTEXT = 140, 16384


@dataclass
class Row:
    """What one unit, or several, came to."""

    units: int = 0
    points: float = 0
    solved: int = 0
    steps: int = 0
    refused: int = 0
    """Steps whose answer could not be read or was not understood."""
    calls: int = 0
    uncached: int = 0
    """Tokens that the server read and did not have in its cache."""
    written: int = 0
    seconds: float = 0

    def __add__(self, other: "Row") -> "Row":
        return Row(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Row)))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--gguf", type=Path, default=os.environ.get("RSSO_GGUF"), help="the model, or RSSO_GGUF")
    parser.add_argument("--benchmark", default="babyai", choices=sorted(UNITS))
    parser.add_argument("--units", default="", help="keys of variants, separated by commas")
    parser.add_argument("--steps", type=int, default=20, help="most steps of a trial")
    parser.add_argument("--threads", type=int, default=1, help="threads of the server; more than free cores is slower")
    parser.add_argument("--set", action="append", default=[], help="a setting of the product, KEY=VALUE")
    parser.add_argument("--base-url", help="a server of llama.cpp that has the model, in place of one in this process")
    parser.add_argument("--only", choices=("plain", "product"))
    options = parse_options(parser, units="GoToRedBall::200", steps=2)
    if options.gguf is None:
        exit_lacking("a model, --gguf FILE or RSSO_GGUF")
    digest = hashlib.sha256(options.gguf.read_bytes()).hexdigest()
    server = options.base_url or f"{options.threads} threads"
    print(f"{options.gguf.name}, sha256 {digest}, {server}, temperature 0, {options.steps} steps")
    print_head("unit", "prompt", "points", "steps", "refused", "uncached a step", "written a step", "seconds a step")
    sums = {"plain": Row(), "product": Row()}
    with ExitStack() as within:
        url = options.base_url or within.enter_context(serve(options.gguf, options.threads))
        settings = [*make_overrides(url), f"benchmark={options.benchmark}", *options.set]
        config = load_config(Path(os.devnull), settings)
        live, tasks = within.enter_context(session(config)), config.active_benchmark.tasks
        firsts = [f"{name}::{tasks.indices(name, 'dev')[0]}" for name in tasks.names()]
        for unit in options.units.split(",") if options.units else UNITS[options.benchmark] or firsts:
            for name, play in (("plain", play_plain), ("product", play_product)):
                if options.only in (None, name):
                    row = play(url, live, unit, options.steps)
                    sums[name] += row
                    show(unit, name, row)
    for name, row in sums.items():
        if row.units:
            show(f"{row.units} units, {row.solved} solved", name, row)
    print(json.dumps({name: asdict(row) for name, row in sums.items()}))


def show(unit: str, name: str, row: Row) -> None:
    steps = max(1, row.steps)
    print_row(unit, name, f"{row.points / row.units:.1f}", row.steps, row.refused, f"{row.uncached / steps:.0f}",
              f"{row.written / steps:.1f}", f"{row.seconds / steps:.1f}")  # fmt: skip


@contextmanager
def serve(weights: Path, threads: int = 1) -> Iterator[str]:
    """llama.cpp's server in this process; gives its address in OpenAI's format."""
    from xllamacpp import CommonParams, Server

    settings = CommonParams()
    settings.model.path = str(weights)
    settings.model_alias = {NAME}
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.n_ctx, settings.n_parallel = CONTEXT, 1
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = threads
    settings.verbosity = 0
    server = Server(settings)
    yield f"{server.listening_address}/v1"
    del server


def make_overrides(url: str) -> list[str]:
    """Settings of a backend that is this server."""
    return [
        "backend=local",
        f"backends.local.model=hosted_vllm/{NAME}",
        f"backends.local.base_url={url}",
        f"backends.local.max_tokens={LONGEST_ANSWER}",
        "backends.local.temperature=0",
        "backends.local.timeout=900",
        "embedder.model=hash",
    ]


def play_product(url: str, live: Session, unit: str, steps: int) -> Row:  # noqa: ARG001
    """One trial of react."""
    begun = time.perf_counter()
    with live.activate_for_run(), replace(live.runtime, budget=lambda _: steps).activate():
        (result,) = Agent("react")(variant=unit, trials=1).trials
    if result.trajectory is None:
        raise SystemExit(f"{unit}: {result.failure}")
    spent, trajectory = result.usage["actor"], result.trajectory
    refused = sum(not step.understood for step in trajectory.steps)
    return Row(1, trajectory.environment_score, int(trajectory.solved), len(trajectory.steps), refused, spent.calls,
               spent.input - spent.cached, spent.output, time.perf_counter() - begun)  # fmt: skip


def play_plain(url: str, live: Session, unit: str, steps: int) -> Row:
    """One trial of the plain prompt: what the model says is the action."""
    begun, row = time.perf_counter(), Row(units=1)
    with live.runtime.environments.lease() as environment:
        choose_interface(environment, live.runtime.rules.interface)
        states = [environment.reset(live.runtime.variant(unit))]
        heading = f"Task: {environment.task}\n"
        if not (listing := getattr(environment, "admissible_actions", None)):
            heading = f"{environment.action_templates}\n{heading}"
        messages = [{"role": "system", "content": INSTRUCTION}]
        while row.steps < steps:
            possible = f"\nPossible actions: {'; '.join(listing())}" if listing else ""
            said = f"{heading}{environment.render(states)[-1]}{possible}"
            answer, usage = ask(url, [*messages, {"role": "user", "content": said}])
            messages += [{"role": "user", "content": said}, {"role": "assistant", "content": answer}]
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            move = environment.step(answer.strip().strip(".").splitlines()[0] if answer.strip() else "")
            states.append(move.state)
            heading = ""
            row += Row(steps=1, calls=1, refused=int(not move.understood), written=usage["completion_tokens"],
                       uncached=usage["prompt_tokens"] - cached)  # fmt: skip
            row.points = move.score
            if move.done or move.score >= 100:
                break
    row.solved, row.seconds = int(row.points >= 100), time.perf_counter() - begun
    return row


def ask(url: str, messages: list[dict[str, str]]) -> tuple[str, Mapping[str, Any]]:
    body = {"model": NAME, "messages": messages, "temperature": 0, "max_tokens": LONGEST_ANSWER}
    request = urllib.request.Request(
        f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=900) as response:
        answer = json.load(response)
    return answer["choices"][0]["message"]["content"] or "", answer["usage"]


if __name__ == "__main__":
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    main()
