"""Does a run lose anything? At least 200 faults, drawn at random, on a run of many units; then everything is checked.

    python benchmarks/chaos.py [--faults 200] [--seed 0] [--jobs 2] [--out FOLDER]

The run is the command line on the real simulator. Its model is a local HTTP server whose answers are a function of the
prompt: those of the embedded model, so that reflections and skills are written and read. It is played once with nothing
in its way. Then it is played under faults: the process group is killed or interrupted, simulators are killed, the disk
is full for a while, and requests meet what requests meet at a provider. Whenever the command
has ended before the run was complete, the same command is started again.

Printed are the faults really inflicted (a kill that found no process is none), how the starts ended, and what was
checked. The last line is one JSON object; its ratio is answers that the server gave to the
disturbed run to those it gave to the undisturbed one. The exit code is 1 when a check fails.
"""

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.script import make_parser

sys.path.insert(0, str(Path(__file__).parent.parent))
from tests.chaos.checks import Verdict, judge
from tests.chaos.run import play_calm, play_disturbed
from tests.chaos.setup import Played, Setup

TASKS = (
    "find-living-thing,find-plant,chemistry-mix-paint-secondary-color,identify-life-stages-2,use-thermometer,"
    "measure-melting-point-known-substance"
)


def main() -> int:
    options = make_parser(__doc__)
    options.add_argument("--faults", type=int, default=200)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--out", type=Path, help="An empty folder for both runs; a temporary one when absent.")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        setup = Setup((given.out or Path(temporary) / "chaos").absolute(), TASKS, jobs=given.jobs)
        calm = play_calm(setup)
        print(f"undisturbed: {calm.answers} answers, {calm.seconds:.0f} s", flush=True)
        begun = time.strftime("%H:%M:%S")
        disturbed = play_disturbed(
            setup, given.faults, given.seed, calm.answers, say=lambda text: print(text, flush=True)
        )
        verdict = judge(setup, calm, disturbed)
    print(f"disturbed: {disturbed.answers} answers, {disturbed.seconds:.0f} s from {begun} on")
    print_verdict(disturbed, verdict)
    sound = verdict.sound and disturbed.inflicted.total() >= given.faults
    print(
        json.dumps(
            {
                "ratio": round(disturbed.answers / calm.answers, 3),
                "faults": disturbed.inflicted.total(),
                "starts": disturbed.ends.total(),
                "seconds": round(disturbed.seconds),
                "sound": sound,
            }
        )
    )
    return 0 if sound else 1


def print_verdict(disturbed: Played, verdict: Verdict) -> None:
    """Print what happened and what was checked."""
    print(f"\n{'fault':42} {'inflicted':>9}")
    for kind, times in disturbed.inflicted.most_common():
        print(f"{kind:42} {times:>9}")
    print(f"{'all':42} {disturbed.inflicted.total():>9}")
    print(f"\nstarts of the command: {disturbed.ends.total()}")
    for end, times in disturbed.ends.most_common():
        print(f"  {end:40} {times:>9}")
    bill, deaths = verdict.bill, disturbed.ends.total() - disturbed.ends["complete"]
    print(f"\nmodel calls: {bill.calm} undisturbed, {bill.given} disturbed; of these")
    print(f"  {bill.recorded:6} are in the records")
    print(f"  {bill.abandoned:6} are in void trials: they errored or stalled")
    print(f"  {bill.unheard:6} were under way at a death of the run, and nobody was there to note them")
    print(f"  {(bill.abandoned + bill.unheard) / max(1, deaths):6.1f} is what an end before the end costs, on average")
    for name, wrong in verdict.checks.items():
        print(f"{'FAILED' if wrong else 'holds':6}  {name}{': ' if wrong else ''}{wrong}")


if __name__ == "__main__":
    sys.exit(main())
