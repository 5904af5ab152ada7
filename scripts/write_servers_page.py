"""Writes into docs/SERVERS.md how servers are named, which settings reach them and what is billed of what they report.

    python scripts/write_servers_page.py            # writes
    python scripts/write_servers_page.py --check    # fails where the page says anything else

Every cell comes from requests through this package to a server on this machine, which answers in the form of the
server that the row is about (`tests/server_forms.py`). A table stands between ``<!-- servers NAME -->`` and
``<!-- end -->``. To add a column, add its name and a function from what was seen of a server to the text of a cell.
"""

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from dspy.utils.exceptions import LMError  # noqa: E402  the path comes first

from rsso_dspy.config import BackendConfig  # noqa: E402
from rsso_dspy.errors import ConfigError  # noqa: E402
from rsso_dspy.lm import Backend, list_refused_settings  # noqa: E402
from rsso_dspy.programs.roles import TrialLedger  # noqa: E402
from rsso_dspy.records import Usage  # noqa: E402
from tests.provider_server import replying  # noqa: E402
from tests.server_forms import ANSWER, SERVERS, THOUGHT, Server  # noqa: E402

PAGE = ROOT / "docs/SERVERS.md"
BLOCK = re.compile(r"(<!-- servers (\S+) -->\n).*?(?=<!-- end -->)", re.S)

KEY, VARIABLE = "sk-planted-for-the-page", "SERVERS_PAGE_KEY"
SYSTEM, QUESTION = "Judge wetness.", "Is water wet?"
SETTINGS = {"max_tokens": 83, "temperature": 0.35, "top_p": 0.91, "top_k": 37, "repetition_penalty": 1.07, "seed": True}
"""Decoding settings, with values that stand nowhere else in a request."""


# What is seen.


@dataclass
class Request:
    """A request as it arrived."""

    headers: str
    body: Any


@dataclass
class Sighting:
    """What was seen of a server."""

    server: Server
    usage: Usage
    """What was booked for one answer."""
    system: str
    """Where the system text arrives."""
    settings: dict[str, str]
    """Setting to the name under which it arrives, in marks; else to what becomes of it."""


@contextmanager
def serve(server: Server) -> Iterator[tuple[str, list[Request]]]:
    """Serve answers in the form of this server; gives the address, and the list of requests as they come."""
    requests: list[Request] = []
    answer = json.dumps(server.body).encode()

    def reply(_path: str, headers: Message, body: bytes) -> tuple[int, Mapping[str, object], bytes]:
        requests.append(Request(str(headers), json.loads(body)))
        return 200, {"Content-Type": "application/json"}, answer

    with replying(reply) as url:
        yield f"{url}{server.path}", requests


def ask(server: Server, address: str, **settings: Any) -> tuple[str, Usage]:
    """Return the answer to a question and what was booked for it."""
    booked: list[Usage] = []
    ledger = TrialLedger(lambda _role, usage: booked.append(usage))
    key = {"key_variable": VARIABLE} if server.key else {}
    config = BackendConfig(model=server.model, base_url=address, retries=0, **key, **settings)

    with ledger.book_under_role("actor"):
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
        (answer,) = Backend(config).lm("actor", 0)(messages=messages)
    return answer["text"] if isinstance(answer, dict) else answer, booked[-1]


def see_server(server: Server) -> Sighting:
    """Ask a server a question. Raises `ValueError` where it is not as its row says."""
    with serve(server) as (address, requests):
        answer, usage = ask(server, address)
        if answer != ANSWER:
            raise ValueError(f"{server.family}: the answer is read as {answer!r}")
        if (KEY in requests[-1].headers) != bool(server.key):
            raise ValueError(f"{server.family}: the key that is named does not arrive, or one that is not does")
        if (THOUGHT in json.dumps(server.body)) != bool(server.thought):
            raise ValueError(f"{server.family}: the place of the thought is not told")
        system = find_system(requests[-1].body)
    return Sighting(server, usage, system, {})


def find_system(body: Mapping[str, Any]) -> str:
    """Return the field that has the system text, or the role of the message that has it, in marks."""
    for name, value in body.items():
        if name != "messages" and SYSTEM in json.dumps(value):
            return f"`{name}`"
    (role,) = [message["role"] for message in body["messages"] if SYSTEM in json.dumps(message)]
    return f"a message of `{role}`"


def see_settings(server: Server) -> dict[str, str]:
    """Ask a server once with each setting."""
    with serve(server) as (address, requests):
        return {name: see_setting(server, address, requests, name) for name in SETTINGS}


def see_setting(server: Server, address: str, requests: list[Request], name: str) -> str:
    """Return the name under which a setting arrives, in marks, else what becomes of it."""
    if name in list_refused_settings(server.model, server.base_url):
        return "refused"  # at the provider's own address
    try:
        ask(server, address, **{name: SETTINGS[name]})
    except (ConfigError, LMError):
        return "refused"
    values = dict(list_values(requests[-1].body))
    if name == "seed":
        arrived = [key for key in values if key.endswith("seed")]
    else:
        arrived = [key for key, value in values.items() if value == SETTINGS[name]]
    return f"`{arrived[0]}`" if arrived else "lost"


def list_values(body: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """List the names and values in a body, at any depth."""
    for name, value in body.items():
        if isinstance(value, Mapping):
            yield from list_values(value)
        else:
            yield name, value


# Tables.

Column = Callable[[Sighting], str]


def show_setting(name: str) -> Column:
    """Return a column on a setting: yes where it arrives under its own name."""

    def show(sighting: Sighting) -> str:
        state = sighting.settings[name]
        return "yes" if state == f"`{name}`" else state

    return show


def show_code(text: str) -> str:
    return f"`{text}`" if text else ""


def show_usage(sighting: Sighting) -> str:
    """The counts that the server reports, as it names them."""
    body = sighting.server.body
    told = body.get("usage") or body["usageMetadata"]
    cells = list(list_counts(told))
    timings = body.get("timings", {})
    cells += [f"`timings.{name}` {timings[name]}" for name in ("cache_n", "prompt_n") if name in timings]
    return ", ".join(cells)


def list_counts(usage: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in usage.items():
        if isinstance(value, Mapping):
            yield from list_counts(value, f"{name}.")
        elif isinstance(value, int) and value and "token" in name.lower():
            yield f"`{prefix}{name}` {value}"


def show_count(name: str) -> Column:
    """Return a column on a count of the bill; empty where it is none."""

    def show(sighting: Sighting) -> str:
        return str(getattr(sighting.usage, name) or "")

    return show


def show_output(sighting: Sighting) -> str:
    return "unknown" if sighting.usage.unmetered else str(sighting.usage.output)


NAMES: dict[str, Column] = {
    "server": lambda sighting: sighting.server.family,
    "`model`": lambda sighting: show_code(sighting.server.model),
    "`base_url`": lambda sighting: show_code(sighting.server.base_url),
    "`key_variable`": lambda sighting: show_code(sighting.server.key),
    "the system text stands in": lambda sighting: sighting.system,
    "`max_tokens`": show_setting("max_tokens"),
    "`temperature`": show_setting("temperature"),
    "`top_p`": show_setting("top_p"),
    "`top_k`": show_setting("top_k"),
    "`repetition_penalty`": show_setting("repetition_penalty"),
    "`seed`": show_setting("seed"),
}
TOKENS: dict[str, Column] = {
    "server": lambda sighting: sighting.server.family,
    "what it reports": show_usage,
    "input": show_count("input"),
    "of it cached": show_count("cached"),
    "of it written": show_count("cache_write"),
    "output": show_output,
    "of it reasoning": show_count("reasoning"),
    "the thought stands in": lambda sighting: sighting.server.thought,
}


def write_table(columns: Mapping[str, Column], sightings: list[Sighting]) -> str:
    rows = [list(columns), ["---"] * len(columns)]
    rows += [[show(sighting) for show in columns.values()] for sighting in sightings]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def write_page(page: str) -> str:
    """Return the page with tables of what is seen now."""
    with patch.dict(os.environ, {VARIABLE: KEY}):
        sightings = [see_server(server) for server in SERVERS.values()]
        states: dict[str, dict[str, str]] = {}  # model to its settings: all that one client sends is alike
        for sighting in sightings:
            model = sighting.server.model
            states[model] = sighting.settings = states.get(model) or see_settings(sighting.server)

    named = [sighting for sighting in sightings if not sighting.server.is_variant]
    tables = {"names": write_table(NAMES, named), "tokens": write_table(TOKENS, sightings)}
    return BLOCK.sub(lambda block: block.group(1) + tables[block.group(2)], page)


def main() -> None:
    warnings.simplefilter("ignore")
    page = PAGE.read_text(encoding="utf-8")
    new = write_page(page)
    if new != page and "--check" in sys.argv:
        sys.exit(f"{PAGE.name} does not say what is seen: run python scripts/write_servers_page.py")
    PAGE.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
