"""What must hold of a run that was disturbed, beside the same run undisturbed."""

import json
import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.store.run_folder import Store, find_logs
from rsso_dspy.store.unit_log import UnitLog, dump_record
from tests.chaos.process import until
from tests.chaos.setup import KEY, Played, Setup
from tests.provider_runs import files_with

FORMS = (KEY, b64encode(KEY.encode()).decode().rstrip("="), KEY[len("sk-") :])
"""The key as it is, in other writing, and without what all keys begin with."""
Records = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Bill:
    """Model calls: answers that the server gave, and where they are noted."""

    calm: int
    given: int
    recorded: int
    abandoned: int
    tokens_unheard: int
    """What the server billed and no record or note holds."""
    dearest: int
    """Tokens of the largest answer."""

    @property
    def unheard(self) -> int:
        """Answers under way that nobody was there to note."""
        return self.given - self.recorded - self.abandoned


@dataclass(frozen=True)
class Verdict:
    """Checks by name, with what is wrong; empty where nothing is."""

    checks: dict[str, str]
    bill: Bill

    @property
    def sound(self) -> bool:
        return not any(self.checks.values())


def judge(setup: Setup, calm: Played, disturbed: Played) -> Verdict:
    """Look at everything that the two left."""
    logs = read_logs(disturbed.out)
    records, expected = make_records(logs), make_records(read_logs(calm.out))
    store = Store(disturbed.out, read_only=True)
    bill = make_bill(disturbed, records, expected)
    same = [name for name in expected.keys() & records.keys() if is_alike(records[name], expected[name], logs[name])]
    deadly = ("killed", "disk full", "interrupted", "folder taken away")
    deaths = sum(disturbed.ends[end] for end in deadly) * setup.jobs
    leaks = [str(file) for form in FORMS for file in files_with(form, setup.folder)]
    leaks += [said for said in disturbed.said if any(form in said for form in FORMS)]
    checks = {
        "the faults drawn were inflicted": say_unless(
            disturbed.inflicted.total() >= disturbed.drawn, f"{disturbed.inflicted.total()} of {disturbed.drawn}"
        ),
        "the run came to its end, and every end before has its cause": say_unless(
            disturbed.ends["complete"] == 1 and not disturbed.ends["unexplained"],
            f"{dict(disturbed.ends)} {disturbed.said[-1]}",
        ),
        "every planned unit is there, once": say_unless(
            sorted(records) == sorted(expected) and len(records) == setup.units, f"{len(records)} of {setup.units}"
        ),
        "no unit is errored": join(name for name, record in records.items() if lacks_trial(record, setup.trials)),
        "the records are those of the calm run": join(expected.keys() - {*same}),
        "no unit is left begun, no trial under way": join(map(str, [*store.load_begun(), *store.read_under_way()])),
        "no file is damaged, no temporary file is left": join(map(str, find_litter(disturbed.out))),
        "no trial was played twice but one that errored": join(
            name for name, log in logs.items() if has_needless_trials(log)
        ),
        "the calm run's bill is what the server gave": say_unless(
            calm.answers == bill.calm, f"{calm.answers} given, {bill.calm} recorded"
        ),
        "the bill is the server's to the token, but for what was under way at a death": say_unless(
            calm.tokens == count_usage(expected, "input", "output")
            and (bill.unheard > 0 or bill.tokens_unheard == 0)
            and 0 <= bill.tokens_unheard <= bill.unheard * bill.dearest,
            f"{bill}, calm {calm.tokens}",
        ),
        "no folder was made anew": say_unless(not disturbed.made_anew, f"{disturbed.made_anew} were"),
        "every answer is on the bill but those under way at a death": say_unless(
            0 <= bill.unheard <= deaths, f"{bill.unheard} unheard, {deaths} possible: {bill}"
        ),
        "no simulator outlives its run": say_unless(
            until(lambda: not any(each.alive for each in disturbed.simulators), 60.0), "Java processes are left"
        ),
        "the key is in no file and in no message": join(leaks),
    }
    return Verdict(checks, bill)


def say_unless(holds: bool, why: str) -> str:
    return "" if holds else why


def join(names: Iterable[str]) -> str:
    return ", ".join(names)


def read_logs(out: Path) -> dict[str, UnitLog]:
    paths = find_logs(out / "units")
    return {str(path.relative_to(out)): UnitLog(path.read_bytes(), path=path, whole=True) for path in paths}


def make_records(logs: dict[str, UnitLog]) -> Records:
    finished = {name: log.make_record() for name, log in logs.items() if log.is_finished}
    return {name: dump_record(record) for name, record in finished.items() if record}


def has_needless_trials(log: UnitLog) -> bool:
    """Whether a trial was played again that counted, or one was given up that did not error."""
    standing: dict[int, bool] = {}
    for line in map(json.loads, log.path.read_bytes().splitlines()):
        if "void" in line:
            given_up = {number for number in standing if number >= line["void"]}
            if given_up and not any(standing.pop(number) for number in given_up):
                return True
        elif "result" in line:
            if line["trial"] in standing:
                return True
            standing[line["trial"]] = line["result"]["trajectory"] is None
    return False


def lacks_trial(record: dict[str, Any], trials: int) -> bool:
    return len(record["trials"]) != trials or any(trial["trajectory"] is None for trial in record["trials"])


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


def is_alike(ours: dict[str, Any], theirs: dict[str, Any], log: UnitLog) -> bool:
    replayed = {lines[0]["trial"] - 1 for lines in log.by_number.values() if lines[0]["attempt"]}
    return strip_bookkeeping(ours, replayed) == strip_bookkeeping(theirs, replayed)


def find_litter(out: Path) -> list[Path]:
    """Files that no run leaves."""
    known = re.compile(r"[^.].*\.jsonl?|\.lock")
    return [path for path in out.rglob("*") if path.is_file() and not known.fullmatch(path.name)]


def count_usage(records: Records, *kinds: str) -> int:
    uses = [use for each in records.values() for trial in each["trials"] for use in trial["usage"].values()]
    return sum(use[kind] for use in uses for kind in kinds)


def make_bill(disturbed: Played, records: Records, expected: Records) -> Bill:
    notes = [usage for _, _, usage in Store(disturbed.out).read_abandoned()]
    noted = count_usage(records, "input", "output") + sum(usage.input + usage.output for usage in notes)
    return Bill(
        count_usage(expected, "calls"),
        disturbed.answers,
        count_usage(records, "calls"),
        sum(usage.calls for usage in notes),
        disturbed.tokens - noted,
        max(disturbed.served.tokens, default=0),
    )
