"""What the registry and the parts of a benchmark promise."""

import tomllib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments import benchmark
from rsso_dspy.environments.benchmark import BUILT_IN, DEFAULT, Benchmark, add_benchmark, get_benchmark, list_benchmarks
from rsso_dspy.errors import SplitError, UnknownName, UsageError
from rsso_dspy.memory.constitution import require_examples
from rsso_dspy.memory.formats import format_examples
from rsso_dspy.optimize.calibration import Calibration
from tests.toy_benchmark import BENCHMARK
from tests.toy_package import installed


def test_another_one_is_part_of_the_hash(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(installed(tmp_path))
    get_benchmark.cache_clear()
    other = load_config(overrides=["benchmark=toy"])
    assert other.hash() != load_config().hash() == load_config(overrides=[f"benchmark={DEFAULT}"]).hash()
    assert (other.active_benchmark.name, other.simplification) == ("toy", "")


EXTRAS = {"alfworld": "alfworld", "tau2": "tau2", "textworld-express": "textworld_express"}
INSTALLED = [name for name in BUILT_IN if name not in EXTRAS or find_spec(EXTRAS[name])]


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_says_what_it_is_about_and_its_lessons_name_conditions_that_there_are(name):
    texts = Path(benchmark.__file__).with_name(name.replace("-", "_")) / "data/texts.toml"
    about = tomllib.loads(texts.read_text(encoding="utf-8"))["about"]
    assert 0 < len(about) < 700
    if name in INSTALLED:
        assert get_benchmark(name).hints.about == about
        assert set(get_benchmark(name).tasks.examples) <= {*get_benchmark(name).tasks.names()}
        taught = get_benchmark(name).hints.lessons
        conditions = {each for row in (*taught.mistakes, *taught.progress, *taught.facts) for each in row.when.split()}
        assert conditions <= set(dir(taught.episode)), "conditions are members of the episode"


@pytest.mark.parametrize("name", [name for name in INSTALLED if name != "house-rules"])  # it has no examples of rules
def test_a_neuro_symbolic_writer_is_shown_what_patterns_drew_and_a_neural_one_nothing(name):
    examples = format_examples(None, get_benchmark(name).hints.examples())
    shown = {kind: require_examples("mine", kind, examples, ("error",)) for kind in ("neural", "neuro-symbolic")}
    assert shown == {"neural": "", "neuro-symbolic": examples}
    assert "Error rules:\n- Mistake: " in examples


def test_one_that_is_not_installed_is_no_configuration():
    with pytest.raises(UnknownName, match="unknown benchmark 'toys'"):
        load_config(overrides=["benchmark=toys"])


@pytest.fixture
def added(monkeypatch):
    """The benchmarks that were added; gone after the test."""
    known: dict = {}
    monkeypatch.setattr(benchmark, "ADDED", known)
    yield known
    get_benchmark.cache_clear()


def test_an_added_benchmark_is_known_by_its_name(added):
    mine = replace(BENCHMARK, name="my-own_2.1")
    with pytest.raises(UnknownName, match="and scripts with add_benchmark"):
        load_config(overrides=["benchmark=my-own_2.1"])
    add_benchmark(mine)
    assert added == {"my-own_2.1": mine}
    assert load_config(overrides=["benchmark=my-own_2.1"]).active_benchmark is mine
    assert "my-own_2.1" in list_benchmarks()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        *((replace(BENCHMARK, name=name), f"the benchmark {name} is there already") for name in (*BUILT_IN, "mine")),
        (replace(BENCHMARK, name="two words"), "its name takes letters, digits"),
        (replace(BENCHMARK, name="../up"), "its name takes letters, digits"),
        (replace(BENCHMARK, name=""), "its name takes letters, digits"),
        (replace(BENCHMARK, name=None), "its name takes letters, digits"),
        (Benchmark, "add_benchmark takes a Benchmark, not type"),
        ("mine", "add_benchmark takes a Benchmark, not str"),
    ],
)
def test_a_name_is_added_once_and_only_a_benchmark(added, wrong, said):
    add_benchmark(replace(BENCHMARK, name="mine"))
    with pytest.raises(UsageError, match=said):
        add_benchmark(wrong)
    assert list(added) == ["mine"]


def test_an_installed_name_is_taken_too(added, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(installed(tmp_path))
    with pytest.raises(UsageError, match="the benchmark toy is there already; give this one another name"):
        add_benchmark(BENCHMARK)
    assert not added


def test_the_selection_of_a_table_without_samples_is_the_first_of_the_test_split():
    assert [variant.key for variant in BENCHMARK.tasks.held_out("up", n=2)] == ["up::9", "up::10"]
    with pytest.raises(UnknownName, match="selection 'sso'"):
        BENCHMARK.tasks.held_out("up", "sso")
    with pytest.raises(SplitError, match="up has no variant 15"):
        BENCHMARK.tasks.parse("up::15")


def test_held_out_variants_of_any_benchmark_calibrate_nothing(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(installed(tmp_path))
    get_benchmark.cache_clear()
    one, other, held_out = map(BENCHMARK.tasks.parse, ("up::0", "up::1", "up::9"))
    assert [each.key for each in Calibration((one,), (other,), benchmark="toy").train] == ["up::0"]
    with pytest.raises(SplitError, match="up::9"):
        Calibration((one,), (held_out,), benchmark="toy")
