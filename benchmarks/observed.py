"""The table that forecasts go by until a run has units of its own: what units of a run cost, per method.

    python benchmarks/methods.py --out runs/methods
    python benchmarks/constitutions.py --out runs/constitutions
    python benchmarks/observed.py runs/methods runs/constitutions/held-out

Writes rsso_dspy/experiment/data/observed.json from the zero-shot units of finished runs on the embedded backend, each
method from the first run that holds it; methods with something added to them are left out. The last line is one JSON
object; its ratio is tokens spent to tokens forecast for the odd units, judged by the even ones.
"""

import argparse
import json
from pathlib import Path

import rsso_dspy.experiment.cost_estimate as forecasts
from rsso_dspy.store.unit_store import Store

FILE = Path(forecasts.__file__).parent / "data" / "observed.json"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("runs", type=Path, nargs="+")
    units: list[forecasts.ObservedUnit] = []
    protocols = []
    for folder in options.parse_args().runs:
        known = {unit.method for unit in units}
        store = Store(folder)
        identity, _ = store.read_identity()
        trials = identity["config"]["protocol"]["trials"]
        protocols.append(identity["protocol"])
        for record in store.units():
            if not record.has_errors and record.method not in known and "+" not in record.arm:
                units.append(forecasts.make_observed_unit(record, 1 if record.stream else trials))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(forecasts.dump_observed_units(units), encoding="utf-8")
    rate = [
        sum(sum(u.input for u in unit.usage.values()) for unit in half) / sum(unit.allowed for unit in half)
        for half in (units[::2], units[1::2])
    ]
    print(
        f"{len(units)} units of {len({unit.method for unit in units})} methods, {', '.join(dict.fromkeys(protocols))}"
    )
    print(json.dumps({"ratio": round(rate[1] / rate[0], 3)}))


if __name__ == "__main__":
    main()
