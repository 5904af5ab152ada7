"""docs/NUMBERS.md: its table of scores, computed anew without the package, gives the figures that the page prints, and
those of the report of a run with these scores."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from math import comb, sqrt
from statistics import fmean, variance
from typing import Any

import pytest
from scipy.optimize import brentq
from scipy.stats import nct, norm, rankdata, t

from rsso_dspy.records import UnitRecord
from rsso_dspy.report.analysis import Analysis, analyze
from rsso_dspy.report.compare import Question
from rsso_dspy.report.statistics import apply_holm_correction
from rsso_dspy.report.tables import build_tables, write_headline
from tests.docs.blocks import page, section
from tests.records import record

ARMS = ("react", "reflexion")
TRIALS = 3
TYPES = 6
PLAN = {"plans_from_past_attempts": "- Look first."}
DIFFERENCES, GAINS = (-100, 100), (0, 100)

Unit = tuple[str, int]
Scores = dict[Unit, dict[str, list[int]]]


@dataclass(frozen=True)
class Ends:
    low: float
    high: float
    error: float = 0.0


def read_tables(text: str) -> list[list[list[str]]]:
    """The cells of each table of a page, without the line below its head."""
    tables = re.findall(r"(?:^\|.*\|\n)+", text, re.M)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "---" not in line]
        for table in tables
    ]


@cache
def read_scores() -> Scores:
    (head, *rows) = read_tables(section("NUMBERS.md", "The scores"))[0]
    assert head[2:] == [f"{arm} {trial}" for arm in ARMS for trial in (1, 2, 3)]
    scores = {}
    for task, variant, *points in rows:
        first, second = (list(map(int, points[start : start + TRIALS])) for start in (0, TRIALS))
        scores[task, int(variant)] = dict(zip(ARMS, (first, second), strict=True))
    return scores


@cache
def read_titled_tables() -> dict[str, list[dict[str, str]]]:
    """The rows of the tables that stand below a title, by it."""
    found = {}
    for title, table in re.findall(r"^\*\*([^*]+)\*\*\n\n((?:\|.*\|\n)+)", page("NUMBERS.md"), re.M):
        ((head, *rows),) = read_tables(table)
        found[title] = [dict(zip(head, row, strict=True)) for row in rows]
    return found


# The table computed anew.


def group_by_type(values: dict[Unit, float]) -> list[list[float]]:
    tasks = sorted({task for task, _ in values})
    return [[value for (task, _), value in sorted(values.items()) if task == name] for name in tasks]


def find_ends(values: dict[Unit, float], bounds: tuple[int, int]) -> Ends:
    """The 95% interval of the mean over units, by types."""
    types = group_by_type(values)
    means = [fmean(each) for each in types]
    usual = max(means.count(bound) for bound in ((0,) if bounds[0] < 0 else bounds))
    if len(means) - usual < TYPES or len(set(means)) == 1:
        return add_pseudo_types(types, bounds)
    return draw_types(types)


def add_pseudo_types(types: Sequence[Sequence[float]], bounds: tuple[int, int]) -> Ends:
    """Bonett and Price 2012, by types, each pseudo-type of as many variants as say what one says (Kish 1965)."""
    size = fmean(map(len, types))
    between = size * variance([fmean(each) for each in types])
    within = fmean(variance(each) for each in types if len(each) > 1)
    alike = max(0.0, (between - within) / (between + (size - 1) * within))
    weight = 1 + (size - 1) * alike

    sums = [*map(sum, types), *(weight * bound for bound in bounds)]
    sizes = [*map(len, types), weight, weight]
    middle = sum(sums) / sum(sizes)
    squares = sum((total - middle * count) ** 2 for total, count in zip(sums, sizes, strict=True))
    error = sqrt(squares * len(sums) / (len(sums) - 1)) / sum(sizes)
    reach = t.ppf(0.975, len(types) - 1) * error
    return Ends(max(bounds[0], middle - reach), min(bounds[1], middle + reach), error)


def draw_types(types: Sequence[Sequence[float]]) -> Ends:
    """Every possible draw of as many types, of equally many variants."""
    means, count = [fmean(each) for each in types], len(types)
    middle = fmean(means)
    draws = sorted(fmean(draw) - middle for draw in product(means, repeat=count))
    stretched = sqrt(count / (count - 1)) * t.ppf(0.975, count - 1) / norm.ppf(0.975)
    place = round(0.025 * len(draws))
    return Ends(middle + stretched * draws[place], middle + stretched * draws[-place - 1])


def flip_signs(sums: Sequence[float]) -> float:
    """The exact two-sided p."""
    totals = [sum(sign * each for sign, each in zip(signs, sums, strict=True)) for signs in list_signs(len(sums))]
    return fmean(abs(total) >= abs(sum(sums)) for total in totals)


def rank_signs(means: Sequence[float]) -> float:
    """The exact two-sided p of the signed-rank test."""
    unlike = [mean for mean in means if mean]
    ranks = rankdata([abs(mean) for mean in unlike])

    def sum_smaller(signs: Sequence[float]) -> float:
        down = sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign < 0)
        return min(down, sum(ranks) - down)

    return fmean(sum_smaller(signs) <= sum_smaller(unlike) for signs in list_signs(len(unlike)))


def list_signs(count: int) -> list[tuple[int, ...]]:
    return list(product((1, -1), repeat=count))


def find_detectable(error: float, types: int = TYPES) -> float:
    critical = t.ppf(0.975, types - 1)
    return error * brentq(lambda shift: nct.sf(critical, types - 1, shift) - 0.8, 0, 60)


def sign(value: float, digits: int = 2) -> str:
    return f"{value:+.{digits}f}" if round(value, digits) else f"{0:.{digits}f}"


def compute_arms(scores: Scores) -> list[dict[str, str]]:
    rows = []
    for arm in ARMS:
        units = {key: of[arm] for key, of in scores.items()}
        best = [fmean(max(trials[:number]) for trials in units.values()) for number in (1, 2, 3)]
        gains = {key: max(trials[:2]) - trials[0] for key, trials in units.items()}
        ends = find_ends(gains, GAINS)
        solved = [fmean(100 in trials[:number] for trials in units.values()) for number in (1, 2, 3)]
        reached = {
            level: next((str(number) for number, share in enumerate(solved, 1) if share >= level / 100), "never")
            for level in (50, 75)
        }
        row = {"arm": arm, "trials": str(TRIALS * len(units)), "trial-1": f"{best[0]:.2f}"}
        row["mean/trial"] = f"{fmean(map(fmean, units.values())):.2f}"
        row |= {f"best_of_{number}": f"{mean:.2f}" for number, mean in enumerate(best, 1)}
        row |= {"gain of trial 2": sign(fmean(gains.values())), "95% from": sign(ends.low, 1), "to": sign(ends.high, 1)}
        rows.append(row | {f"to {level}%": trial for level, trial in reached.items()})
    return rows


def compute_success(scores: Scores) -> list[dict[str, str]]:
    rows = []
    for arm in ARMS:
        before = 0
        for number in (1, 2, 3):
            solved = sum(100 in of[arm][:number] for of in scores.values())
            row = {"arm": arm, "trial": number, "solved": solved, "additional": solved - before}
            row |= {"fail": len(scores) - solved, "accuracy": f"{solved / len(scores):.1%}"}
            rows.append({name: str(value) for name, value in row.items()})
            before = solved
    return rows


def compute_repeats(scores: Scores) -> list[dict[str, str]]:
    rows = []
    for k in (1, 2, 3):
        shares = {key: 100 * comb(of["react"].count(100), k) / comb(TRIALS, k) for key, of in scores.items()}
        ends = find_ends(shares, GAINS)
        row = {"arm": "react", "repeats": "trials", "k": str(k), "variants": str(len(shares))}
        row |= {"pass^k, %": f"{fmean(shares.values()):.1f}", "95% from": f"{ends.low:.1f}", "to": f"{ends.high:.1f}"}
        rows.append(row)
    return rows


def subtract_best(scores: Scores) -> dict[Unit, float]:
    return {key: max(of["reflexion"]) - max(of["react"]) for key, of in scores.items()}


def judge(ends: Ends, p: float, margin: float = 10) -> str:
    if p <= 0.05 and (ends.low > 0 or ends.high < 0):
        return "better" if ends.low > 0 else "worse"
    if -margin < ends.low and ends.high < margin:
        return f"no difference of {margin} points or more"
    return "undecided"


def compute_differences(scores: Scores, margin: float = 10) -> list[dict[str, str]]:
    gains = subtract_best(scores)
    ends, types = find_ends(gains, DIFFERENCES), group_by_type(gains)
    p = flip_signs([sum(each) for each in types])
    shown, possible = count_shown(scores)
    row = {"second - first": "reflexion - react", "pairs": str(len(gains)), "points": sign(fmean(gains.values()))}
    row |= {"95% from": sign(ends.low, 1), "to": sign(ends.high, 1)}
    row["min. detectable difference"] = f"{find_detectable(ends.error):.1f}"
    row["units +/-"] = f"+{sum(gain > 0 for gain in gains.values())} -{sum(gain < 0 for gain in gains.values())}"
    row |= {"p": f"{p:.4f}", "Holm": f"{p:.4f}", "Wilcoxon": f"{rank_signs([fmean(each) for each in types]):.4f}"}
    return [row | {"verdict": judge(ends, p, margin), "shown": f"reflections {shown}/{possible}"}]


def count_shown(scores: Scores) -> tuple[int, int]:
    """Later trials of reflexion that follow a trial that failed, and all later ones."""
    later = [min(of["reflexion"][:number]) < 100 for of in scores.values() for number in range(1, TRIALS)]
    return sum(later), len(later)


def compute_strata(scores: Scores) -> list[dict[str, str]]:
    gains = subtract_best(scores)
    failed = {key: gain for key, gain in gains.items() if scores[key]["react"][0] < 100}
    plateau = [gain for key, gain in gains.items() if max(scores[key]["react"]) < 100]
    ends = find_ends(failed, DIFFERENCES)
    first = {
        "second - first": "reflexion - react",
        "stratum": "failed the shared first trial",
        "units": str(len(failed)),
    }
    first |= {"points": sign(fmean(failed.values())), "95% from": sign(ends.low, 1), "to": sign(ends.high, 1)}
    second = {"second - first": "reflexion - react", "stratum": "paper's plateau", "units": str(len(plateau))}
    return [first, second | {"points": sign(fmean(plateau)), "95% from": "", "to": ""}]


def compute_next(scores: Scores) -> list[dict[str, str]]:
    """Runs with more variants or more types, if types differ no more than their variants do."""
    types = group_by_type(subtract_best(scores))
    within = fmean(variance(each) for each in types)
    assert 2 * variance([fmean(each) for each in types]) < within
    calls = 2 * 2 * TRIALS  # two a trial, in both arms
    rows = []
    for points in (10, 5):
        variants = next(n for n in range(1, 1000) if find_detectable(sqrt(within / (TYPES * n))) <= points)
        count = next(n for n in range(2, 1000) if find_detectable(sqrt(within / (2 * n)), n) <= points)
        for more, sizes in (("variants", (TYPES, variants)), ("task types", (count, 2))):
            row = {"second - first": "reflexion - react", "to find": str(points), "by": f"more {more}"}
            row |= {"task types": str(sizes[0]), "variants": str(sizes[1]), "seeds": "1"}
            units = sizes[0] * sizes[1]
            rows.append(row | {"units/arm": str(units), "calls": f"{units * calls:,}"})
    return rows


COMPUTED = {
    "Over trials": compute_arms,
    "Success, trial by trial": compute_success,
    "All of k repeats solved": compute_repeats,
    "Paired differences": compute_differences,
    "What a next run would take": compute_next,
    "Where a memory could act": compute_strata,
}


# A run with these scores.


def play(scores: Scores, least: int = 0) -> list[UnitRecord]:
    """The units of a run. A reflection stands in the prompts of `reflexion` in trials that follow a failed one, from
    unit `least` on."""
    units = []
    for place, ((task, variant), of) in enumerate(scores.items()):
        for arm, trials in of.items():
            unit = record(arm, task, variant, [[points] for points in trials], allowed=TRIALS, shown={})
            if arm == "reflexion":
                shown = [PLAN if place >= least and min(trials[:n], default=100) < 100 else {} for n in range(TRIALS)]
                results = zip(unit.trials, shown, strict=True)
                unit = replace(unit, trials=tuple(replace(result, shown=text) for result, text in results))
            units.append(unit)
    return units


def list_rows(found: Analysis) -> dict[str, list[dict[str, str]]]:
    tables: dict[str, Any] = {}
    for sheet in build_tables(found, with_paper=True):
        rows = [dict(zip(sheet.columns, (cell.text for cell in row), strict=True)) for row in sheet.rows]
        tables[sheet.title] = [row for row in rows if not row[sheet.columns[0]].startswith("published")]
    return tables


def improve(scores: Scores) -> Scores:
    """The last trials of `reflexion` on find 2 and grow 1 solved."""
    better = {key: {arm: list(trials) for arm, trials in of.items()} for key, of in scores.items()}
    for key in (("find", 2), ("grow", 1)):
        better[key]["reflexion"][-1] = 100
    return better


# What is compared.


def test_every_table_of_the_page_is_one_that_is_computed_here():
    assert list(read_titled_tables()) == list(COMPUTED)


@pytest.mark.parametrize("title", COMPUTED)
def test_the_page_prints_what_its_scores_give(title):
    assert read_titled_tables()[title] == COMPUTED[title](read_scores())


@pytest.mark.parametrize("title", COMPUTED)
def test_the_report_prints_what_the_scores_of_the_page_give(title):
    reported = list_rows(analyze(play(read_scores())))[title]
    computed = COMPUTED[title](read_scores())
    assert [{name: row[name] for name in computed[0]} for row in reported] == computed


def test_the_page_groups_the_differences_by_type():
    types = group_by_type(subtract_best(read_scores()))
    (_, *rows) = read_tables(section("NUMBERS.md", "The difference"))[0]
    assert [row[1:] for row in rows] == [
        [", ".join(map(str, each)), str(sum(each)), f"{fmean(each):g}"] for each in types
    ]


def test_the_steps_between_are_those_of_the_page():
    """Errors, quantiles, squares and parts of a variance, from which its sums go on."""
    scores = read_scores()
    gains = subtract_best(scores)
    failed = {key: gain for key, gain in gains.items() if scores[key]["react"][0] < 100}
    gains_of_retries = {key: max(of["react"][:2]) - of["react"][0] for key, of in scores.items()}
    errors = [find_ends(gains, DIFFERENCES).error, find_ends(gains_of_retries, GAINS).error]
    errors.append(find_ends(failed, DIFFERENCES).error)

    types = group_by_type(gains)
    middle = sum(map(sum, types)) / (len(gains) + 2)
    residuals = [sum(each) - middle * len(each) for each in types]
    squares = sum(each**2 for each in [*residuals, 100 - middle, -100 - middle])
    of_failed = group_by_type(failed)
    between = fmean(map(len, of_failed)) * variance([fmean(each) for each in of_failed])
    within = fmean(variance(each) for each in of_failed if len(each) > 1)

    told = [f"{error:.3f}" for error in errors]
    told += [", ".join(f"{each:.2f}" for each in residuals), f"{squares:.0f}", f"{between:.0f}", f"{within:.0f}"]
    told += [f"{t.ppf(0.975, TYPES - 1):.3f}", f"{norm.ppf(0.975):.3f}", f"{find_detectable(1.0):.3f} errors"]
    told += [
        f"{find_detectable(1.0, 32):.3f} with 32",
        f"mean square is {2 * variance([fmean(each) for each in types]):.0f}",
    ]
    told += [f"{sum(max(of[arm]) for of in scores.values())} for `{arm}`" for arm in ARMS]
    text = " ".join(page("NUMBERS.md").split())
    assert not [figure for figure in told if figure not in text]


SUM = re.compile(r"`([-+*/() .\d,Csqrt]+) = (-?[\d.]+)`")


def test_every_sum_of_the_page_adds_up():
    """To the digits that it is printed with, give or take half of one where its own figures are rounded."""
    text = page("NUMBERS.md")
    sums = SUM.findall(text)
    assert len(sums) == len(re.findall(r"`[^`]* = [^`]*`", text)), "no sum goes unread"
    for written, said in sums:
        digits = len(said.partition(".")[2])
        value = eval(written, {"__builtins__": {}, "C": comb, "sqrt": sqrt})
        assert value == pytest.approx(float(said), abs=0.51 * 10**-digits), written


def test_each_verdict_is_the_one_that_the_page_says():
    scores = read_scores()
    words = [row[0] for row in read_tables(section("NUMBERS.md", "The verdict"))[0][1:]]
    better = improve(scores)
    found = {
        "undecided": analyze(play(scores)),
        "no difference of 45 points or more": analyze(play(scores), question=Question(margin=45)),
        "better": analyze(play(better)),
        "worse": analyze(play(better), question=Question(against="reflexion")),
        "not tested": analyze(play(scores, least=len(scores) - 1)),
    }
    assert words == list(found)
    assert words == [str(each.comparisons[0].verdict) for each in found.values()]
    assert compute_differences(scores, 45)[0]["verdict"] == words[1]
    (row,) = compute_differences(better)
    assert (row["verdict"], row["p"], row["95% from"], row["to"]) == ("better", "0.0312", "+15.3", "+29.7")
    pair = found["better"].comparisons[0]
    assert (f"{pair.interval.low:.1f}", f"{pair.interval.high:.1f}", pair.holm) == ("15.3", "29.7", 0.03125)
    assert "reflexion beats react" in write_headline(found["better"])
    assert found["not tested"].comparisons[0].interval is None


def test_the_reasons_are_those_of_the_page():
    (pair,) = analyze(play(read_scores())).comparisons
    assert pair.verdict.reasons[0] in page("NUMBERS.md")
    assert (pair.room, pair.holm) == (32.5, 0.125)
    assert apply_holm_correction([0.125, 0.02]) == [0.125, 0.04]


def test_shares_of_a_ceiling_are_those_of_the_page():
    """The ends solve the t test, with scipy alone; the report prints them."""
    rows = read_tables(section("NUMBERS.md", "Shares of a ceiling"))[0][1:]
    gains = {arm: [float(row[place]) for row in rows] for place, arm in ((1, "learnt"), (2, "hand"))}

    def test_ratio(ratio: float) -> float:
        left = [own - ratio * ceiling for own, ceiling in zip(gains["learnt"], gains["hand"], strict=True)]
        return abs(fmean(left)) / sqrt(variance(left) / len(left)) - t.ppf(0.975, len(left) - 1)

    share = sum(gains["learnt"]) / sum(gains["hand"])
    ends = [brentq(test_ratio, -5, share), brentq(test_ratio, share, 5)]
    printed = [f"{100 * value:.0f}%" for value in (share, *ends)]
    text = " ".join(section("NUMBERS.md", "Shares of a ceiling").split())
    assert all(value in text for value in printed)
    assert f"{printed[1]} to {printed[2]}" in text

    played = {"react": [0.0] * len(rows), **gains}
    units = [
        record(arm, f"type {task}", 1, [[int(points)]])
        for arm, scores in played.items()
        for task, points in enumerate(scores, start=1)
    ]
    found = analyze(units, question=Question("react", ceiling="hand"))
    (sheet,) = [sheet for sheet in build_tables(found) if sheet.name == "room"]
    assert [cell.text for cell in sheet.rows[0]][3:] == printed
