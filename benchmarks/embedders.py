"""Cost of a vector, by the route that makes it: start-up, time per text, memory, and how far the routes agree.

    python benchmarks/embedders.py [--texts 100] [--model all-MiniLM-L6-v2]

The texts are distinct state descriptions of variants that the embedded model plays first, so they are as long and as
alike as in a run. Every route encodes them in a fresh process of its own:

- start: from the ready package (which takes some seconds itself, most of it DSPy) to the first vector, by the clock;
- ms a text: CPU time of the process, on one thread, mean over the texts after the first;
- memory: the process's peak; the row "lexical" is about what the package itself takes;
- agreement: largest difference to a number of the torch route's vectors, which are of length 1; for `lexical`, which
  has other dimensions, the rank correlation of all pairwise cosines with torch's.

ratio = ms a text with torch / with numpy.
"""

import json
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.script import exit_lacking, make_parser, parse_options

VARIANTS = ("find-plant::228", "lifespan-longest-lived::98", "boil::22", "use-thermometer::412", "melt::22")
"""Played in turn until there are texts enough."""

CHILD = """
import json, resource, sys, time
import numpy as np
from rsso_dspy.embed import Embedder
from rsso_dspy.config import EmbedderConfig

name, texts, file = sys.argv[1], json.load(open(sys.argv[2])), sys.argv[3]
begun = time.perf_counter()
embed = Embedder(EmbedderConfig(model=name))
embed(texts[:1])
start = time.perf_counter()
cpu = time.process_time()
embed(texts[1:])
cpu = time.process_time() - cpu
np.save(file, embed(texts))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
heavy = [package for package in ("torch",) if package in sys.modules]
ms = 1000 * cpu / (len(texts) - 1)
print(json.dumps({"start": start - begun, "ms": ms, "mb": peak, "loaded": heavy}))
"""


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--texts", type=int, default=100, help="texts per route, at least 2")
    parser.add_argument("--model", default="all-MiniLM-L6-v2", help="sentence-transformers model")
    options = parse_options(parser, texts=3)
    if find_spec("sentence_transformers") is None:
        exit_lacking("sentence-transformers with torch, beside which the others are measured")
    texts = collect_descriptions(options.texts)
    lengths = [len(text) for text in texts]
    print(
        f"{len(texts)} state descriptions of {min(lengths)} to {max(lengths)} characters, mean {np.mean(lengths):.0f}"
    )
    with tempfile.TemporaryDirectory() as scratch:
        print(json.dumps(compare_routes(options.model, texts, Path(scratch))))


def compare_routes(model: str, texts: list[str], folder: Path) -> dict[str, Any]:
    (folder / "texts.json").write_text(json.dumps(texts))
    print(f"| route | start, s | ms a text | memory, MB | agreement with torch |\n{'|---' * 5}|")
    names = {"torch": model, "numpy": f"numpy/{model}", "lexical": "lexical", "hash": "hash"}
    rows: dict[str, dict[str, Any]] = {}
    rows["torch"], truth = measure_route(folder, model)
    print_row("torch", rows["torch"], "")
    for label in ("numpy", "lexical"):
        rows[label], vectors = measure_route(folder, names[label])
        print_row(label, rows[label], measure_agreement(vectors, truth))
    rows["hash"], _ = measure_route(folder, "hash")
    print_row("hash", rows["hash"], "")
    assert not rows["numpy"]["loaded"], "the numpy route leaves torch alone"
    figures = {f"{key} {label}": round(row[key], 3) for label, row in rows.items() for key in ("start", "ms", "mb")}
    return {"ratio": round(rows["torch"]["ms"] / rows["numpy"]["ms"], 2), "texts": len(texts), **figures}


def measure_route(folder: Path, name: str) -> tuple[dict[str, Any], np.ndarray]:
    """One route in a process of its own: its figures and its vectors."""
    file = folder / "vectors.npy"
    words = [name, str(folder / "texts.json"), str(file)]
    done = subprocess.run([sys.executable, "-c", CHILD, *words], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1]), np.load(file)


def measure_agreement(vectors: np.ndarray, truth: np.ndarray) -> str:
    if vectors.shape == truth.shape:
        return f"{np.abs(vectors - truth).max():.1e}"
    from scipy.stats import spearmanr

    pairs = np.triu_indices(len(truth), k=1)
    return f"rank correlation {spearmanr((vectors @ vectors.T)[pairs], (truth @ truth.T)[pairs]).statistic:.2f}"


def print_row(label: str, row: dict[str, Any], agrees: str) -> None:
    print(f"| {label} | {row['start']:.2f} | {row['ms']:.3f} | {row['mb']:.0f} | {agrees} |", flush=True)


def collect_descriptions(count: int) -> list[str]:
    """Distinct state descriptions of trials that the embedded model plays."""
    from rsso_dspy.config import load_config
    from rsso_dspy.programs.agent import Agent
    from rsso_dspy.sessions import session

    found: dict[str, None] = {}
    with session(load_config(overrides=["embedder.model=hash"])):
        for variant in VARIANTS:
            for trial in Agent("react")(variant=variant, trials=2).trials:
                found.update(dict.fromkeys(state.description for state in trial.trajectory.states))
            if len(found) >= count:
                break
    return list(found)[:count]


if __name__ == "__main__":
    main()
