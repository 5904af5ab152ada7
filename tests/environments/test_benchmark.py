"""What the registry and the parts of a benchmark promise."""

import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from rsso_dspy.config import load_config
from rsso_dspy.environments import benchmark
from rsso_dspy.environments.benchmark import BUILT_IN, DEFAULT, get_benchmark
from rsso_dspy.errors import SplitError, UnknownName
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


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_says_what_it_is_about_and_its_lessons_name_conditions_that_there_are(name):
    texts = Path(benchmark.__file__).with_name(name) / "data/texts.toml"
    about = tomllib.loads(texts.read_text(encoding="utf-8"))["about"]
    assert 0 < len(about) < 700
    if name != "alfworld" or find_spec("alfworld"):
        assert get_benchmark(name).hints.about == about
        assert set(get_benchmark(name).tasks.examples) <= {*get_benchmark(name).tasks.names()}
        taught = get_benchmark(name).hints.lessons
        conditions = {each for row in (*taught.mistakes, *taught.progress, *taught.facts) for each in row.when.split()}
        assert conditions <= set(dir(taught.episode)), "conditions are members of the episode"


@pytest.mark.parametrize("name", [name for name in BUILT_IN if name != "alfworld" or find_spec("alfworld")])
def test_a_neuro_symbolic_writer_is_shown_what_patterns_drew_and_a_neural_one_nothing(name):
    examples = format_examples(None, get_benchmark(name).hints.examples())
    shown = {kind: require_examples("mine", kind, examples, ("error",)) for kind in ("neural", "neuro-symbolic")}
    assert shown == {"neural": "", "neuro-symbolic": examples}
    assert "Error rules:\n- Mistake: " in examples


def test_one_that_is_not_installed_is_no_configuration():
    with pytest.raises(UnknownName, match="unknown benchmark 'toys'"):
        load_config(overrides=["benchmark=toys"])


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
