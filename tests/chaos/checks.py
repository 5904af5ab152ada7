"""What must hold of a run that was disturbed, beside the same run undisturbed."""

import json
import re
from base64 import b64encode
from pathlib import Path
from typing import Any

from rsso_dspy.store.run_folder import Store, find_logs
from rsso_dspy.store.unit_log import UnitLog, dump_record
from tests.chaos.process import until
from tests.chaos.run import FAULTS
from tests.chaos.setup import KEY, TRIALS, Played, Setup
from tests.provider_runs import files_with

FORMS = (KEY, b64encode(KEY.encode()).decode().rstrip("="), KEY[len("sk-") :])
"""The key as it is, in other writing, and without what all keys begin with."""
Records = dict[str, dict[str, Any]]


def judge(setup: Setup, calm: Played, disturbed: Played) -> dict[str, Any]:
    """What is wrong with all that the two left, by what should hold."""
    logs = read_logs(disturbed.out)
    records, expected = make_records(logs), make_records(read_logs(calm.out))
    store = Store(disturbed.out, read_only=True)
    abandoned = sum(usage.calls for _, _, usage in store.read_abandoned())
    unheard = disturbed.answers - count_calls(records) - abandoned  # under way, and nobody was there to note them
    deaths = sum(disturbed.ends[end] for end in ("killed", "disk full", "folder taken away"))
    leaks = [str(file) for form in FORMS for file in files_with(form, setup.folder)]
    leaks += [said for said in disturbed.said if any(form in said for form in FORMS)]
    wrong = {
        "every fault was inflicted": disturbed.inflicted != list(FAULTS) and f"only {disturbed.inflicted}",
        "the run came to its end, and every end before has its cause": disturbed.ends["complete"] != 1
        and (disturbed.ends, disturbed.said[-1]),
        "both units are there, once": (sorted(records) != sorted(expected) or len(records) != 2)
        and f"only {[*records]}",
        "no unit is errored": [name for name, record in records.items() if lacks_trial(record)],
        "the records are those of the calm run": [
            name for name in expected.keys() & records.keys() if not is_alike(records[name], expected[name], logs[name])
        ],
        "no unit is left begun, no trial under way": [*store.load_begun(), *store.read_under_way()],
        "no file is damaged, no temporary file is left": find_litter(disturbed.out),
        "the calm run's bill is what the server gave": calm.answers != count_calls(expected) and calm.answers,
        "no folder was made anew": disturbed.made_anew,
        "every answer is on the bill but those under way at a death": not 0 <= unheard <= deaths and unheard,
        "no simulator outlives its run": not until(lambda: not any(each.alive for each in disturbed.simulators), 60.0),
        "the key is in no file and in no message": leaks,
    }
    return {name: what for name, what in wrong.items() if what}


def read_logs(out: Path) -> dict[str, UnitLog]:
    paths = find_logs(out / "units")
    return {str(path.relative_to(out)): UnitLog(path.read_bytes(), path=path, whole=True) for path in paths}


def make_records(logs: dict[str, UnitLog]) -> Records:
    finished = {name: log.make_record() for name, log in logs.items() if log.is_finished}
    return {name: dump_record(record) for name, record in finished.items() if record}


def lacks_trial(record: dict[str, Any]) -> bool:
    return len(record["trials"]) != TRIALS or any(trial["trajectory"] is None for trial in record["trials"])


def is_alike(ours: dict[str, Any], theirs: dict[str, Any], log: UnitLog) -> bool:
    replayed = {lines[0]["trial"] - 1 for lines in log.by_number.values() if lines[0]["attempt"]}
    return strip_bookkeeping(ours, replayed) == strip_bookkeeping(theirs, replayed)


def strip_bookkeeping(record: dict[str, Any], replayed: set[int]) -> dict[str, Any]:
    """The record without counts of failures, and what a trial cost that was `replayed`: both attempts. The commit is
    of a source tree that may be committed to while a run goes on."""
    copy = json.loads(json.dumps(record))
    copy["provenance"].pop("commit")
    for number, trial in enumerate(copy["trials"]):
        for name in ("failures", "replayed", *(["usage"] if number in replayed else [])):
            trial.pop(name)
        for usage in trial.get("usage", {}).values():
            usage.pop("failed")
    return copy


def find_litter(out: Path) -> list[Path]:
    """Files that no run leaves."""
    known = re.compile(r"[^.].*\.jsonl?|\.lock")
    return [path for path in out.rglob("*") if path.is_file() and not known.fullmatch(path.name)]


def count_calls(records: Records) -> int:
    trials = [trial for each in records.values() for trial in each["trials"]]
    return sum(use["calls"] for trial in trials for use in trial["usage"].values())
