"""The statistics: against the paper's numbers, against closed forms, and on what is degenerate."""

import itertools

import numpy as np
import pytest
from typer.testing import CliRunner

from rsso_dspy.cli.app import app
from rsso_dspy.report.published import load_published_tables, recompute_statistics
from rsso_dspy.report.statistics import apply_holm_correction, run_flip_test, run_sign_test, run_wilcoxon_test


def test_the_papers_statistics_come_out_of_its_table():
    found = recompute_statistics()
    assert (found.wilcoxon.statistic, found.wilcoxon.used) == (12, 14)
    assert found.wilcoxon.p == pytest.approx(0.0085, abs=5e-5)
    assert (found.sign.up, found.sign.down, found.sign.ties) == (12, 2, 4)
    assert found.sign.p == pytest.approx(0.0129, abs=5e-5)
    assert [round(mean, 2) for mean in found.micro.values()] == [58.37, 82.13, 79.46, 88.42]
    assert [round(mean, 2) for mean in found.macro.values()] == [57.88, 81.21, 79.27, 87.46]
    assert sum(row["n"] for row in load_published_tables()["table2"]) == 164
    over = found.interval
    assert (round(over.mean, 2), over.clusters) == (8.96, 18)
    assert [round(each, 1) for each in (over.low, over.high, over.detectable_difference)] == [3.1, 15.1, 8.4]


TABLE_1 = """
    react      flat  Claude Sonnet 4.6  58.37   62/164   56/164
    reflexion  flat  Claude Sonnet 4.6  82.13  114/164  102/164
    sso        sso   Claude Sonnet 4.6  79.46  113/164   96/164
    rsso       sso   Claude Sonnet 4.6  88.41  134/164  112/164
    react      flat  GPT-4               29.6      n/a      n/a
    reflexion  flat  GPT-4               39.4      n/a      n/a
    sso        sso   GPT-4               83.7      n/a      n/a"""
TABLE_2 = """
    boil                                     9   41.3   77.8   64.6   89.8  +25.2  +36.4
    chemistry-mix                            8   71.2   81.6   82.0   82.0    0.0  +10.4
    chemistry-mix-paint-secondary-color      9   30.0   67.8   71.1   86.7  +15.6  +37.8
    find-living-thing                       10   52.5   88.3   52.5   90.0  +37.5  +35.8
    find-plant                              10  100.0  100.0   91.7   91.7    0.0    0.0
    freeze                                   9   45.8   59.6   48.9   63.2  +14.3  +13.8
    grow-fruit                              10   20.8   34.7   63.9   77.0  +13.1  +13.9
    grow-plant                              10   45.7   71.1   77.9   78.2   +0.3  +25.4
    identify-life-stages-1                   5   61.6  100.0   95.4   82.0  -13.4  +38.4
    identify-life-stages-2                   4   46.5   46.5   68.5   71.5   +3.0    0.0
    inclined-plane-determine-angle          10   44.0   99.0   99.0   93.0   -6.0  +55.0
    inclined-plane-friction-named-surfaces  10   87.0  100.0  100.0  100.0    0.0  +13.0
    lifespan-longest-lived                  10   62.5   95.0   87.5  100.0  +12.5  +32.5
    lifespan-shortest-lived                 10   60.0   95.0   77.5   95.0  +17.5  +35.0
    measure-melting-point-known-substance   10   61.7   98.5   80.3   98.5  +18.2  +36.8
    mendelian-genetics-known-plant          10  100.0  100.0  100.0  100.0    0.0    0.0
    mendelian-genetics-unknown-plant        10   24.5   50.7   68.7   76.6   +7.9  +26.2
    use-thermometer                         10   86.8   96.1   97.3   99.1   +1.8   +9.3
    Overall  58.37  82.13  79.46  88.41  +8.95  +23.76"""
RECOMPUTED = """
    recomputed over variants    58.37  82.13  79.46  88.42  +8.96  +23.76
    recomputed over task types  57.88  81.21  79.27  87.46  +8.19  +23.32"""
CURVES = """
    react      58.37     n/a    n/a    n/a    n/a     n/a
    reflexion  58.37  69.24*    n/a    n/a  82.13  +10.87
    sso        75.30   76.63  77.57  78.09  79.46   +1.33
    rsso      75.07*   84.49  85.80  87.55  88.41   +9.42"""


def split_rows(text: str) -> set[str]:
    return {" ".join(line.split()) for line in text.strip().splitlines()}


@pytest.fixture
def printed(monkeypatch) -> set[str]:
    """The lines of `rsso-dspy paper`, with single blanks."""
    monkeypatch.setenv("COLUMNS", "120")
    return split_rows(CliRunner().invoke(app, ["paper"]).stdout)


def test_table_1_is_printed_as_published(printed):
    assert split_rows(TABLE_1) <= printed


def test_table_2_is_printed_as_published(printed):
    """The paper computed its differences before it rounded the means: boil has +36.4, its means differ by 36.5."""
    assert split_rows(TABLE_2) <= printed


def test_means_recomputed_from_the_rows_of_table_2_stand_below_it(printed):
    assert split_rows(RECOMPUTED) <= printed


def test_figure_2_is_printed_with_the_gain_of_trial_2(printed):
    """What the paper's text has no value of is n/a, or marked where it follows: 84.49 - 9.42, 58.37 + 10.87."""
    assert split_rows(CURVES) <= printed
    (note,) = (line for line in printed if line.startswith("* follows from printed values"))
    assert "75.07 (rsso, t = 1) is 84.49 - 9.42" in note
    assert "69.24 (reflexion, t = 2) is 58.37 + 10.87" in note


OMNIREFLECT_TABLE_1 = """
    ReAct                       44.0  68.0   54.2  24.6  45.2  31.2   1.7  41.7  76.7
    Reflexion                   82.8  94.0   84.1  44.1  53.2  50.8  11.7  66.7  91.7
    OmniReflect-Neural          83.6  91.8   94.8  73.2  74.1  72.3  20.0  71.7  78.3
    OmniReflect-Symbolic        91.8  88.8  100.0  45.5  67.9  60.7  16.7  78.3  85.0
    OmniReflect-Neuro-Symbolic  86.6  93.3   96.3  54.5  64.3  68.8  31.7  75.0  80.0
    meta-advisor Qwen           73.1  77.6   93.8  58.0  58.0  59.8  12.1  36.6  70.0
    meta-advisor Gemini         55.2  47.0   94.8  50.9  58.0  52.7  10.0  45.7  75.0
    meta-advisor GPT-4          76.9  79.1   96.3  60.7  63.4  64.2  13.3  65.2  80.0"""


def test_table_1_of_omnireflect_is_printed_as_published(monkeypatch):
    """Its 71.67, the only value of two digits, is printed with one, as the others are."""
    monkeypatch.setenv("COLUMNS", "200")
    assert split_rows(OMNIREFLECT_TABLE_1) <= split_rows(CliRunner().invoke(app, ["paper", "omnireflect"]).stdout)


def test_tables_of_the_other_papers_are_printed():
    assert {"12.1", "36.6", "70.0"} <= {*CliRunner().invoke(app, ["paper", "omnireflect"]).stdout.split()}
    assert "Accuracy, trial by trial" in CliRunner().invoke(app, ["paper", "reflexion"]).stdout


@pytest.mark.parametrize(
    "differences",
    [[1, 2, 3], [1, -2, 3, 0, 5], [1, 1, -1, 2, 2], [-4, -3, -2, -1], [3, 3, 3, -3, 1, 0.5, 0.5], [-7, 0]],
)
def test_the_signed_rank_test_is_exact_with_ties_and_zeros(differences):
    """The two-sided p is that of counting every arrangement of signs."""
    values = np.array([value for value in differences if value])
    order = np.abs(values)
    ranks = np.array([(order < v).sum() + ((order == v).sum() + 1) / 2 for v in order])
    seen = abs((np.sign(values) * ranks).sum())
    sums = [abs((np.array(signs) * ranks).sum()) for signs in itertools.product((-1, 1), repeat=len(values))]
    exact = float(np.mean([total >= seen - 1e-9 for total in sums]))
    assert run_wilcoxon_test(differences).p == pytest.approx(exact)


def test_without_a_difference_there_is_no_test():
    assert run_wilcoxon_test([0, 0]).p is None
    assert run_sign_test([0.0]).p is None
    assert run_flip_test([0, 0, 0]).p is None


def test_of_a_single_task_type_there_is_no_test():
    assert run_wilcoxon_test([-7]).p is None
    assert run_sign_test([-7]).p is None
    assert run_flip_test([-7]).p is None


@pytest.mark.parametrize(
    ("sums", "p"),
    [
        ([20.0, 20.67], 0.5),  # two task types that agree
        ([100, 0, 100, 0, 100, 0], 0.25),  # three of six, all up
        ([50, -50, 20], 1.0),
        ([-10] * 6, 2 / 2**6),
    ],
)
def test_the_flips_are_counted_in_both_directions(sums, p):
    found = run_flip_test(sums)
    assert found.p == p
    assert (found.unlike, found.clusters) == (sum(value != 0 for value in sums), len(sums))


def test_holm_orders_and_never_falls():
    assert apply_holm_correction([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])
    assert apply_holm_correction([0.6, 0.7]) == [1.0, 1.0]
    assert apply_holm_correction([]) == []
