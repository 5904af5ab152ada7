"""Time of a search in the vector index on disk, and how often it finds what a full comparison finds.

    python benchmarks/memory_index.py [--entries 100000] [--dimensions 384] [--searches 200]

Entries are drawn around 2,000 topics, as task descriptions are; searches are new texts of these topics. Prints the
seconds to fill and to load, milliseconds a search (by the clock, and of CPU time), the share of the three nearest that
are found, and as its last line the same as JSON.
"""

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.script import make_parser
from rsso_dspy.embedders.vector_index import Entry, VectorIndex


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--searches", type=int, default=200)
    wanted = parser.parse_args()
    draw = np.random.default_rng(1)
    topics = draw.standard_normal((2000, wanted.dimensions))

    def make_vectors(number: int) -> np.ndarray:
        near = topics[draw.integers(len(topics), size=number)] + 0.7 * draw.standard_normal((number, wanted.dimensions))
        return (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)

    vectors = make_vectors(wanted.entries)
    asked = make_vectors(wanted.searches)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "index.sqlite"
        begun = time.perf_counter()
        with VectorIndex(file, "drawn", create=True) as index:
            for start in range(0, wanted.entries, 10_000):
                part = vectors[start : start + 10_000]
                entries = [Entry(f"task::{start + n}", "", {"n": start + n}) for n in range(len(part))]
                index.add(entries, lambda _, part=part: part)
        filled = time.perf_counter() - begun
        with VectorIndex(file, "drawn") as index:
            begun = time.perf_counter()
            index.find_nearest(asked[0], 3)
            loaded = time.perf_counter() - begun
            times, spent, hits = [], [], 0
            for vector in asked:
                begun, cpu = time.perf_counter(), time.process_time()
                found = index.find_nearest(vector, 3)
                times.append(time.perf_counter() - begun)
                spent.append(time.process_time() - cpu)
                best = set(np.argsort(-(vectors @ vector))[:3].tolist())
                hits += len(best & {entry.data["n"] for entry in found})
    result = {
        "entries": wanted.entries,
        "fill_s": round(filled, 2),
        "load_s": round(loaded, 2),
        "search_ms_median": round(1000 * float(np.median(times)), 2),
        "search_cpu_ms_median": round(1000 * float(np.median(spent)), 2),
        "search_ms_p95": round(1000 * float(np.quantile(times, 0.95)), 2),
        "found_of_nearest_3": round(hits / (3 * wanted.searches), 4),
    }
    for name, value in result.items():
        print(f"{name:20} {value}")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
