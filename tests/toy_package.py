"""The package that holds `toy_benchmark`: its entry point is read as that of any other."""

from dataclasses import replace
from pathlib import Path

from tests.toy_benchmark import BENCHMARK

WITHOUT_GOLD = replace(BENCHMARK, name="goldless", gold_path=None)
BROKEN = "not a benchmark"


def installed(folder: Path, **points: str) -> Path:
    """A folder for `sys.path` with a package whose entry points are these benchmarks, name to ``module:attribute``."""
    about = folder / "toy_package-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-package\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in (points or {"toy": "tests.toy_benchmark:BENCHMARK"}).items()]
    (about / "entry_points.txt").write_text("\n".join(["[rsso_dspy.benchmarks]", *lines]) + "\n")
    return folder
