r"""The table that forecasts go by until a run has units of its own: what units of a run cost, per method.

    rsso-dspy run --methods METHODS --per-task 2 --trials 3 --protocol adapt/2-cap60 --out runs/complete
    rsso-dspy run --methods METHODS --per-task 2 --trials 3 --protocol sso-adapt/1-cap60 --out runs/sso
    rsso-dspy run --methods METHODS --per-task 2 --trials 3 --protocol adapt/2-cap60 --out runs/pddl --benchmark pddl
    rsso-dspy run --methods METHODS --per-task 1 --trials 3 --protocol adapt/2-cap60 --out runs/babyai \
        --benchmark babyai
    rsso-dspy run --methods METHODS --per-task 2 --trials 3 --protocol adapt/2-cap60 --out runs/alfworld \
        --benchmark alfworld
    python benchmarks/observed.py runs/complete runs/sso runs/pddl runs/babyai runs/alfworld

METHODS are the nine of README.md without `+constitution`. ALFWorld's games are the tiny ones that are made. Writes
rsso_dspy/experiment/data/observed.json from the zero-shot units of finished runs on the embedded backend: each method
of an interface (of another benchmark than ScienceWorld: of the benchmark) from the first run that holds it, without
methods to which something was added. Units of what no run has stay as they are. Prints calls and mean tokens of each
role, for `TOKENS_PER_CALL` in rsso_dspy/experiment/forecast.py. The last line is one JSON object; its ratio is tokens
spent to tokens forecast for the odd units, judged by the even ones.
"""

import json
from dataclasses import replace
from pathlib import Path

import rsso_dspy.experiment.cost_estimate as forecasts
from benchmarks.script import make_parser, print_head, print_row
from rsso_dspy.environments.benchmark import DEFAULT
from rsso_dspy.experiment.protocols import interface_of
from rsso_dspy.records import Usage
from rsso_dspy.store.run_folder import Store

FILE = Path(forecasts.__file__).parent / "data" / "observed.json"


def main() -> None:
    options = make_parser(__doc__)
    options.add_argument("runs", type=Path, nargs="+")
    units: list[forecasts.ObservedUnit] = []
    protocols = []
    for folder in options.parse_args().runs:
        store = Store(folder)
        identity, _ = store.read_identity()
        place = identity["config"].get("benchmark", DEFAULT), interface_of(identity["config"]["protocol"])
        known = {unit.method for unit in units if where(unit) == (place if place[0] == DEFAULT else place[:1])}
        trials = identity["config"]["protocol"]["trials"]
        protocols.append(identity["protocol"])
        for record in store.units():
            if not record.has_errors and record.method not in known and "+" not in record.arm:
                unit = forecasts.make_observed_unit(record, 1 if record.stream else trials)
                units.append(replace(unit, benchmark=place[0], interface=place[1]))
    measured = set(map(where, units))
    print_sizes(units)
    kept = [unit for unit in forecasts.load_shipped_units() if where(unit) not in measured]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(forecasts.dump_observed_units([*units, *kept]), encoding="utf-8")
    rate = [
        sum(sum(u.input for u in unit.usage.values()) for unit in half) / sum(unit.allowed for unit in half)
        for half in (units[::2], units[1::2])
    ]
    print(
        f"{len(units)} units of {len({unit.method for unit in units})} methods, {', '.join(dict.fromkeys(protocols))}"
    )
    print(json.dumps({"ratio": round(rate[1] / rate[0], 3)}))


def where(unit: forecasts.ObservedUnit) -> tuple[str, ...]:
    """Return what a table of units is kept by."""
    return (DEFAULT, unit.interface) if unit.benchmark == DEFAULT else (unit.benchmark,)


def print_sizes(units: list[forecasts.ObservedUnit]) -> None:
    """Print calls and mean tokens per call of every role, by benchmark and interface."""
    print_head("units", "role", "calls", "tokens in", "out")
    totals: dict[tuple[str, str], Usage] = {}
    for unit in units:
        for role, usage in unit.usage.items():
            key = " ".join(where(unit)), role
            totals[key] = totals.get(key, Usage()) + usage
    for (place, role), usage in totals.items():
        means = (f"{number / usage.calls:,.0f}" for number in (usage.input, usage.output))
        print_row(place, role, f"{usage.calls:,}", *means)


if __name__ == "__main__":
    main()
