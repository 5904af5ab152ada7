"""The README's picture, from the first table of docs/BENCHMARKS.md: `python benchmarks/readme_figure.py`.

Mean of the best trial so far after one, two and three trials: rsso, and the same agent without a memory.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs/images/rsso-vs-retries.svg"
SHOWN = (
    ("rsso", "rsso: reflections and skills", "#0072B2", "-"),
    ("react-sso", "no memory, equal retries", "#666666", "--"),
)


def read_means(method: str) -> list[float]:
    """Return trial-1, best_of_2 and best_of_3 of a method, the last three cells of its row."""
    table = (ROOT / "docs/BENCHMARKS.md").read_text(encoding="utf-8").partition("under `adapt/3`")[2]
    row = re.search(rf"^\| {method} \|(.*)\|$", table, re.M)
    assert row is not None
    return [float(cell) for cell in row[1].split("|")[-3:]]


def main() -> None:
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "readme", "font.size": 11})
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    for method, label, colour, line in SHOWN:
        means = read_means(method)
        axes.plot((1, 2, 3), means, line, marker="o", color=colour, linewidth=2)
        axes.annotate(f"{label}\n{means[-1]:.1f}", (3, means[-1]), (8, -8), textcoords="offset points", color=colour)
    axes.set(xlim=(0.9, 4.1), ylim=(0, 100), xticks=(1, 2, 3), xlabel="trials", ylabel="mean of the best trial so far")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(FILE, metadata={"Date": None})


if __name__ == "__main__":
    main()
