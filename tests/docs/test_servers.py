"""The page on servers says what is seen of each of them now, through a local server that answers in its form."""

import importlib.util
from pathlib import Path

import pytest

from tests.docs.blocks import page
from tests.server_forms import SERVERS

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")

SCRIPT = Path(__file__).parents[2] / "scripts/write_servers_page.py"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("write_servers_page", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_says_what_is_seen(script):
    assert script.write_page(page("SERVERS.md")) == page("SERVERS.md")


def test_a_page_that_is_behind_is_brought_up(script, monkeypatch):
    server = SERVERS["ollama"]
    monkeypatch.setattr(script, "SERVERS", {"ollama": server})
    old = "before\n<!-- servers tokens -->\n| stale |\n<!-- end -->\nafter\n"
    usage = "`prompt_tokens` 100, `completion_tokens` 20, `total_tokens` 120"
    row = f"| Ollama | {usage} | 100 |  |  | 20 |  | `reasoning` |"
    new = script.write_page(old)
    assert new.startswith("before\n<!-- servers tokens -->\n| server |")
    assert new.endswith(f"{row}\n<!-- end -->\nafter\n")
