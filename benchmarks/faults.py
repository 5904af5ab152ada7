"""How often a run loses something to what happens to it.

    python -m benchmarks.faults --runs 5

Each run waits for a provider's server on this machine, and is killed there, loses its simulator, its disk space and its
folder, and is started again until it is complete. It is compared with the same run undisturbed: records, bill, files,
and what is left running. Exits with 1 if anything is lost. Linux only: it finds simulators in /proc.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.script import exit_lacking, make_parser, parse_options, print_head, print_row
from tests.chaos.checks import judge
from tests.chaos.run import FAULTS, play_calm, play_disturbed
from tests.chaos.setup import Setup


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--runs", type=int, default=5, help="disturbed runs")
    options = parse_options(parser, runs=1)
    if sys.platform != "linux":
        exit_lacking("Linux, where simulators are found in /proc")

    print_head("run", "faults", "starts", "seconds", "lost")
    lost = 0
    for number in range(1, options.runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            setup = Setup(Path(folder) / "faults")
            begin = time.perf_counter()
            calm = play_calm(setup)
            disturbed = play_disturbed(setup, calm.answers)
            faults = judge(setup, calm, disturbed)
            seconds = time.perf_counter() - begin

        lost += bool(faults)
        starts = sum(disturbed.ends.values())
        print_row(number, len(disturbed.inflicted), starts, f"{seconds:.0f}", faults or "nothing")

    print()
    print(json.dumps({"benchmark": "faults", "runs": options.runs, "faults": list(FAULTS), "runs_that_lost": lost}))
    raise SystemExit(bool(lost))


if __name__ == "__main__":
    main()
