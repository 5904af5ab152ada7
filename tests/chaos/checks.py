"""What must hold of a run that was disturbed, beside the same run undisturbed."""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.store.run_folder import Store, find_logs
from rsso_dspy.store.unit_log import UnitLog, dump_record
from tests.chaos.process import until
from tests.chaos.run import OUTAGE, SHARES
from tests.chaos.setup import KEY, Played, Setup
from tests.chaos.tormentor import SPOILT
from tests.provider_runs import files_with

FORMS = (KEY, b64encode(KEY.encode()).decode().rstrip("="), KEY.encode().hex(), KEY[len("sk-") :])
"""The key as it is, in other writing, and without what all keys begin with."""

BOOKKEEPING = {
    "failures": "requests of a trial that failed, by kind",
    "usage.failed": "the same, counted by role",
    "replayed": "how often a trial was played again because its simulator died",
    "usage after a replay": "what a trial cost that was played again: both attempts",
    "provenance.commit": "the source tree, which may be committed to while a run goes on",
}
"""What the records of a disturbed run may differ in, and nothing else."""


@dataclass(frozen=True)
class Bill:
    """Model calls: answers that the server gave, and where they are noted."""

    calm: int
    given: int
    recorded: int
    abandoned: int
    replayed: int
    """Part of `recorded` that the calm run has not: what simulators that died took with them."""
    billed: tuple[int, int]
    """Tokens that the server billed, and those in records and notes."""
    dearest: int
    """Tokens of the largest answer."""
    calm_tokens: int
    """Tokens in the records of the calm run."""

    @property
    def unheard(self) -> int:
        """Answers under way that nobody was there to note."""
        return self.given - self.recorded - self.abandoned

    @property
    def tokens_unheard(self) -> int:
        """What the server billed for them."""
        return self.billed[0] - self.billed[1]


@dataclass(frozen=True)
class Verdict:
    """Checks by name, with what is wrong; empty where nothing is."""

    checks: dict[str, str]
    differs: Counter[str]
    """Bookkeeping field to the number of records in which it differs."""
    equal: int
    """Records that are equal in everything."""
    bill: Bill
    errored: Counter[str]
    """Trials that ended in an error, by error."""

    @property
    def sound(self) -> bool:
        return not any(self.checks.values())


def judge(setup: Setup, calm: Played, disturbed: Played) -> Verdict:
    """Look at everything that the two left."""
    logs = _read_logs(disturbed.out)
    records, expected = _records(logs), _records(_read_logs(calm.out))
    store = Store(disturbed.out, read_only=True)
    bill = _bill(disturbed, records, expected)
    other = [name for name in expected if name not in records or not _alike(records[name], expected[name], logs[name])]
    results = [line["result"] for log in logs.values() for line in _read_lines(log) if "trial" in line]
    errored = Counter(result["failure"]["kind"] for result in results if result["trajectory"] is None)
    deadly = ("killed", "disk full", "interrupted", "folder taken away")
    deaths = sum(disturbed.ends[end] for end in deadly) * setup.jobs
    checks = {
        "the faults drawn were inflicted": _unless(
            disturbed.inflicted.total() >= disturbed.drawn, f"{disturbed.inflicted.total()} of {disturbed.drawn}"
        ),
        "the run came to its end, and every end before has its cause": _unless(
            disturbed.ends["complete"] == 1 and not disturbed.ends["unexplained"],
            f"{dict(disturbed.ends)} {disturbed.said[-1]}",
        ),
        "every planned unit is there, once": _unless(
            sorted(records) == sorted(expected) and len(records) == setup.units, f"{len(records)} of {setup.units}"
        ),
        "no unit is errored": _names(name for name, record in records.items() if _lacks_trial(record, setup.trials)),
        "the records are those of the calm run": _names(other),
        "no unit is left begun, no trial under way": _names(map(str, [*store.load_begun(), *store.read_under_way()])),
        "no file is damaged, no temporary file is left": _names(
            str(file.relative_to(disturbed.out)) for file in _litter(disturbed.out, disturbed.planted)
        ),
        "no trial was played twice but one that errored": _names(
            name for name, log in logs.items() if _has_needless_trials(log)
        ),
        "the calm run's bill is what the server gave": _unless(
            calm.answers == bill.calm, f"{calm.answers} given, {bill.calm} recorded"
        ),
        "the bill is the server's to the token, but for what was under way at a death": _unless(
            calm.tokens == bill.calm_tokens
            and (bill.unheard > 0 or bill.tokens_unheard == 0)
            and 0 <= bill.tokens_unheard <= bill.unheard * bill.dearest,
            f"{bill}, calm {calm.tokens}",
        ),
        "what is of another run was quarantined": _names(
            name for name in disturbed.planted if not list((disturbed.out / name).parent.glob(f"{Path(name).name}.*"))
        ),
        "no folder was made anew": _unless(not disturbed.made_anew, f"{disturbed.made_anew} were"),
        "every answer is on the bill but those under way at a death": _unless(
            0 <= bill.unheard <= deaths, f"{bill.unheard} unheard, {deaths} possible: {bill}"
        ),
        "no simulator outlives its run": _unless(
            until(lambda: not any(each.alive for each in disturbed.simulators), 60.0), "Java processes are left"
        ),
        "the key is in no file and in no message": _names(
            [
                *(str(file) for form in FORMS for file in files_with(form, setup.folder)),
                *(said for said in disturbed.said if any(form in said for form in FORMS)),
            ]
        ),
    }
    differs = _differences(expected, records)
    same = sum(records.get(name) == record for name, record in expected.items())
    return Verdict(checks, differs, same, bill, errored)


def consequences(disturbed: Played, verdict: Verdict) -> list[tuple[str, int, str]]:
    """Kind of fault, how many were inflicted, and what became of them."""
    errored, ends = verdict.errored, disturbed.ends
    said = {
        "run killed (-9)": f"the run died {ends['killed']} times, started again",
        "run interrupted (Ctrl-C)": f"the run ended {ends['interrupted']} times, started again",
        "simulator killed (-9)": f"the trial played again at once: {verdict.differs['replayed']} trials in the records",
        "simulators killed as they come": f"{errored['SimulatorDied']} trials errored, played again by the next start",
        "disk full": f"the run ended {ends['disk full']} times, started again",
        "clock jumps": "nothing",
        OUTAGE: f"{errored['LMServerError']} trials errored, played again by the next start",
        "invalid JSON": f"{errored['LMProviderError']} trials errored (with the next line), played again",
        "a page for an answer": "see above",
        "folder taken away": f"the run ended {ends['folder taken away']} times, started again where it was put back",
        "record of another run": f"{len(disturbed.planted)} quarantined, their units played",
        SPOILT: "nothing",
    }
    return [(kind, disturbed.inflicted[kind], said.get(kind, "asked again")) for kind in SHARES]


def _unless(holds: bool, why: str) -> str:
    return "" if holds else why


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _read_logs(out: Path) -> dict[str, UnitLog]:
    paths = find_logs(out / "units")
    return {str(path.relative_to(out)): UnitLog(path.read_bytes(), path=path, whole=True) for path in paths}


def _records(logs: dict[str, UnitLog]) -> dict[str, dict[str, Any]]:
    finished = {name: log.make_record() for name, log in logs.items() if log.is_finished}
    return {name: dump_record(record) for name, record in finished.items() if record}


def _read_lines(log: UnitLog) -> list[dict[str, Any]]:
    """Finished trials and void ones, as they came."""
    lines = log.path.read_bytes().splitlines()
    return [json.loads(line) for line in lines if line.startswith((b'{"trial"', b'{"void"'))]


def _has_needless_trials(log: UnitLog) -> bool:
    """Whether a trial was played again that counted, or one was given up that did not error."""
    standing: dict[int, bool] = {}
    for line in _read_lines(log):
        if "void" in line:
            given_up = {number for number in standing if number >= line["void"]}
            if given_up and not any(standing.pop(number) for number in given_up):
                return True
        elif line["trial"] in standing:
            return True
        else:
            standing[line["trial"]] = line["result"]["trajectory"] is None
    return False


def _lacks_trial(record: dict[str, Any], trials: int) -> bool:
    return len(record["trials"]) != trials or any(trial["trajectory"] is None for trial in record["trials"])


def _bare(record: dict[str, Any], replayed: set[int]) -> dict[str, Any]:
    """The record without its bookkeeping. What a trial cost stays, but for those that were `replayed`."""
    copy = json.loads(json.dumps(record))
    copy["provenance"].pop("commit")
    for number, trial in enumerate(copy["trials"]):
        for name in ("failures", "replayed", *(["usage"] if number in replayed else [])):
            trial.pop(name)
        for usage in trial.get("usage", {}).values():
            usage.pop("failed")
    return copy


def _alike(ours: dict[str, Any], theirs: dict[str, Any], log: UnitLog) -> bool:
    replayed = {lines[0]["trial"] - 1 for lines in log.by_number.values() if lines[0]["attempt"]}
    return _bare(ours, replayed) == _bare(theirs, replayed)


def _differences(expected: dict[str, Any], records: dict[str, Any]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name in expected.keys() & records.keys():
        ours, theirs = records[name], expected[name]
        pairs = list(zip(ours["trials"], theirs["trials"], strict=False))
        found["failures"] += any(mine["failures"] != other["failures"] for mine, other in pairs)
        found["usage.failed"] += any(_failed(mine) != _failed(other) for mine, other in pairs)
        found["replayed"] += any(mine["replayed"] for mine, _ in pairs)
        found["usage after a replay"] += any(
            mine["replayed"] and mine["usage"] != other["usage"] for mine, other in pairs
        )
        found["provenance.commit"] += ours["provenance"]["commit"] != theirs["provenance"]["commit"]
    return found


def _failed(trial: dict[str, Any]) -> dict[str, int]:
    return {role: usage["failed"] for role, usage in trial["usage"].items() if usage["failed"]}


def _litter(out: Path, planted: Collection[str]) -> list[Path]:
    """Files that no run leaves, but for the records of another run that were quarantined."""
    aside = {path for name in planted for path in (out / name).parent.glob(f"{Path(name).name}.*")}
    files = [path for path in out.rglob("*") if path.is_file() and path not in aside]
    known = re.compile(r"[^.].*\.jsonl?|\.lock")
    return [path for path in files if not known.fullmatch(path.name)]


def _bill(disturbed: Played, kept: dict[str, dict[str, Any]], expected: dict[str, dict[str, Any]]) -> Bill:
    def calls(records: dict[str, dict[str, Any]]) -> int:
        return sum(
            use["calls"] for each in records.values() for trial in each["trials"] for use in trial["usage"].values()
        )

    def tokens(records: dict[str, dict[str, Any]]) -> int:
        uses = [use for each in records.values() for trial in each["trials"] for use in trial["usage"].values()]
        return sum(use["input"] + use["output"] for use in uses)

    plain, recorded = calls(expected), calls(kept)
    notes = [usage for _, _, usage in Store(disturbed.out).read_abandoned()]
    abandoned, noted = sum(usage.calls for usage in notes), sum(usage.input + usage.output for usage in notes)
    billed = (disturbed.tokens, tokens(kept) + noted)
    dearest = max(disturbed.served.tokens, default=0)
    return Bill(plain, disturbed.answers, recorded, abandoned, recorded - plain, billed, dearest, tokens(expected))
