"""What must hold of a run that was disturbed, beside the same run undisturbed."""

import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rsso_dspy.store.run_folder import Store
from tests.chaos.process import until
from tests.chaos.run import OUTAGE, SHARES
from tests.chaos.setup import KEY, Played, Setup
from tests.chaos.tormentor import SPOILT, STALLED
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
    """Records that are equal byte for byte."""
    bill: Bill
    errored: Counter[str]
    """Trials that ended in an error, by error."""
    cut_lines: int

    @property
    def sound(self) -> bool:
        return not any(self.checks.values())


def judge(setup: Setup, calm: Played, disturbed: Played) -> Verdict:
    """Look at everything that the two left."""
    records, expected = _records(disturbed.out), _records(calm.out)
    events, cut = _events(disturbed.out)
    bill = _bill(calm, disturbed)
    other = [name for name in expected if name not in records or not _alike(records[name], expected[name])]
    errored = Counter(str(event["error"]).partition(":")[0] for event in events if event.get("error") and _trial(event))
    finished = Counter((event["unit"], event["trial"]) for event in events if _trial(event) and not event.get("error"))
    deadly = ("killed", "disk full", "interrupted", "folder taken away")
    deaths = sum(disturbed.ends[end] for end in deadly) * setup.jobs
    stalled = Counter(event["unit"] for event in events if _trial(event) and event.get("outcome") == "stalled")
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
        "nothing is left in started/": _names(_files(disturbed.out, "started/**/*")),
        "no file is damaged, no temporary file is left": _names(
            str(file.relative_to(disturbed.out)) for file in _litter(disturbed.out, disturbed.planted)
        ),
        "no trial was finished twice": _names(
            map(str, (key for key, times in finished.items() if times > 1 + stalled[key[0]]))
        ),
        "no trial was noted more often than it was played": _names(_noted_too_often(disturbed.out, events, stalled)),
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
    same = sum(_raw(calm.out, name) == _raw(disturbed.out, name) for name in expected)
    return Verdict(checks, differs, same, bill, errored, cut)


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
        "simulator paused": f"{ends[STALLED]} ends with stalled trials, played again with --retry stalled",
        "folder taken away": f"the run ended {ends['folder taken away']} times, started again where it was put back",
        "record of another run": f"{len(disturbed.planted)} quarantined, their units played",
        SPOILT: "nothing",
    }
    return [(kind, disturbed.inflicted[kind], said.get(kind, "asked again")) for kind in SHARES]


def _unless(holds: bool, why: str) -> str:
    return "" if holds else why


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _files(folder: Path, pattern: str) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.glob(pattern) if path.is_file()]


def _raw(out: Path, name: str) -> bytes:
    return (out / name).read_bytes() if (out / name).exists() else b""


def _records(out: Path) -> dict[str, dict[str, Any]]:
    return {name: json.loads(_raw(out, name)) for name in _files(out, "units/*/*/*.json")}


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


def _alike(ours: dict[str, Any], theirs: dict[str, Any]) -> bool:
    replayed = {number for number, trial in enumerate(ours["trials"]) if trial["replayed"]}
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


def _events(out: Path) -> tuple[list[dict[str, Any]], int]:
    """What the log of the run tells, and how many of its lines and of the timings were cut off."""
    lines = [(out / name).read_text().splitlines() for name in ("run.log.jsonl", "timings.jsonl")]
    read = [[entry for line in each if (entry := _entry(line))] for each in lines]
    return read[0], sum(map(len, lines)) - sum(map(len, read))


def _entry(line: str) -> dict[str, Any] | None:
    with suppress(ValueError):
        entry = json.loads(line)
        return entry if isinstance(entry, dict) else None
    return None


def _trial(event: dict[str, Any]) -> bool:
    return event["event"] == "trial"


def _noted_too_often(out: Path, events: list[dict[str, Any]], stalled: Counter[str]) -> list[str]:
    """Trials with more timings than they had attempts: one that finished, those that errored, and those before the
    unit was played again because it had stalled."""
    noted = [entry for line in (out / "timings.jsonl").read_text().splitlines() if (entry := _entry(line))]
    times = Counter((entry["unit"], entry["trial"]) for entry in noted)
    errored = Counter((event["unit"], event["trial"]) for event in events if _trial(event) and event.get("error"))
    return [str(key) for key, number in times.items() if number > 1 + errored[key] + stalled[key[0]]]


def _litter(out: Path, planted: Collection[str]) -> list[Path]:
    """Files that no run leaves, but for the records of another run that were quarantined."""
    aside = {path for name in planted for path in (out / name).parent.glob(f"{Path(name).name}.*")}
    files = [path for path in out.rglob("*") if path.is_file() and path not in aside]
    known = re.compile(r"[^.].*\.(jsonl?|toml)|\.lock")
    return [path for path in files if not known.fullmatch(path.name)]


def _bill(calm: Played, disturbed: Played) -> Bill:
    def calls(records: dict[str, dict[str, Any]]) -> int:
        return sum(
            use["calls"] for each in records.values() for trial in each["trials"] for use in trial["usage"].values()
        )

    def tokens(records: dict[str, dict[str, Any]]) -> int:
        uses = [use for each in records.values() for trial in each["trials"] for use in trial["usage"].values()]
        return sum(use["input"] + use["output"] for use in uses)

    kept, expected = _records(disturbed.out), _records(calm.out)
    plain, recorded = calls(expected), calls(kept)
    notes = [usage for _, _, usage in Store(disturbed.out).read_abandoned()]
    abandoned, noted = sum(usage.calls for usage in notes), sum(usage.input + usage.output for usage in notes)
    billed = (disturbed.tokens, tokens(kept) + noted)
    dearest = max(disturbed.served.tokens, default=0)
    return Bill(plain, disturbed.answers, recorded, abandoned, recorded - plain, billed, dearest, tokens(expected))
