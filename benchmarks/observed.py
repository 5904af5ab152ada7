"""The table that forecasts go by until a run has units of its own: what units of a run cost, per method.

    python benchmarks/methods.py --out runs/methods
    python benchmarks/observed.py runs/methods

Writes rsso_dspy/protocol/data/observed.json from the zero-shot units of a finished run on the embedded backend. The
last line is one JSON object; its ratio is tokens spent to tokens forecast for the odd units, judged by the even ones.
"""

import argparse
import json
from pathlib import Path

import rsso_dspy.protocol.forecast as forecasts
from rsso_dspy.protocol.store import Store

FILE = Path(forecasts.__file__).parent / "data" / "observed.json"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", type=Path)
    store = Store(options.parse_args().run)
    identity, _ = store.about()
    trials = identity["config"]["protocol"]["trials"]
    units = [forecasts.of_record(record, trials) for record in store.units() if not record.errored]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(forecasts.table(units), encoding="utf-8")
    rate = [
        sum(sum(u.input for u in unit.usage.values()) for unit in half) / sum(unit.allowed for unit in half)
        for half in (units[::2], units[1::2])
    ]
    print(f"{len(units)} units of {len({unit.method for unit in units})} methods, {identity['protocol']}")
    print(json.dumps({"ratio": round(rate[1] / rate[0], 3)}))


if __name__ == "__main__":
    main()
