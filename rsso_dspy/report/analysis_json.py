"""An `Analysis` as JSON data, for `rsso-dspy report --json`."""

from dataclasses import asdict
from typing import Any

from rsso_dspy.report.analysis import Analysis, ContrastResult
from rsso_dspy.report.cost_report import serialize_cost_report
from rsso_dspy.report.success import serialize_success


def serialize_analysis(found: Analysis) -> dict[str, Any]:
    """Return the analysis as JSON data."""
    return {
        "facts": {name: list(values) for name, values in found.facts.items()},
        "rule_based": found.rule_based,
        "missing": found.missing,
        "missing_shards": list(found.missing_shards),
        "alike": found.alike,
        "note": found.rule_based_note,
        "repeated": {arm: {"equal": equal, "units": units} for arm, (equal, units) in found.repeated.items()},
        "arms": [
            {
                **asdict(row),
                "learning": {name: value for name, value in asdict(learnt).items() if name not in ("arm", "units")},
                "cost": found.spent[row.arm].cost,
                "paid": found.bill.sum_arm(row.arm),
                "success": serialize_success(success),
            }
            for row, learnt, success in zip(found.arms, found.learning, found.success, strict=True)
        ],
        "tasks": [asdict(task) for task in found.tasks],
        "measures": {arm: asdict(row) for arm, row in found.measures.items()},
        "bill": serialize_cost_report(found.bill),
        "trainings": [asdict(row) for row in found.trainings],
        "comparisons": [_serialize_contrast_result(each) for each in found.findings],
        "as_compiled": [_serialize_contrast_result(each) for each in found.as_compiled],
        "compile_trials": dict(found.compile_trials),
        "squares": {program: asdict(each) for program, each in found.squares.items()},
        "errored": [
            {name: getattr(each, name) for name in ("arm", "unit", "seed", "error", "is_skipped")}
            for each in found.errored
        ],
    }


def _serialize_contrast_result(finding: ContrastResult) -> dict[str, Any]:
    comparison = asdict(finding.comparison)
    if finding.comparison.interval:
        comparison["interval"]["detectable"] = finding.comparison.interval.detectable_difference
    return {
        "asks": finding.question.asks,
        **comparison,
        "holm": finding.holm,
        "same_program": finding.same_program,
        "gains": [asdict(g) for g in finding.gains],
    }
