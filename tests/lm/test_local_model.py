"""A real model on the server of llama.cpp, where the extra `local` is installed and RSSO_GGUF names a file: the
conversation of a trial is served from its cache."""

import os
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.prompts import make_overrides, play_product, serve
from rsso_dspy.config import load_config
from rsso_dspy.sessions import session

GGUF = os.environ.get("RSSO_GGUF", "")
pytestmark = [
    pytest.mark.skipif(not (find_spec("xllamacpp") and GGUF), reason="needs the extra local and a model, RSSO_GGUF"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.timeout(600),
]


def test_a_trial_is_played_and_served_from_the_cache():
    with ExitStack() as within:
        url = within.enter_context(serve(Path(GGUF)))
        live = within.enter_context(session(load_config(Path(os.devnull), [*make_overrides(url), "benchmark=babyai"])))
        row = play_product(url, live, "GoToObjS6::200", steps=4)
    assert (row.units, row.calls >= row.steps) == (1, True)
    assert row.uncached < 400 * row.steps
