"""The models that a server lists, shown when a user names a model that it does not have.

list_models("http://127.0.0.1:8000/v1")     # ["smollm2-135m"]; [] where there is no such list
"""

import http.client
import json
import urllib.request
from typing import Any

SECONDS = 5.0
MOST_READ = 1_000_000
"""Maximum number of bytes read of a list."""
MOST_NAMED = 12


def list_models(base_url: str | None, key: str | None = None) -> list[str]:
    """Return the names of the models at an address in OpenAI's format; empty if the server does not answer in time."""
    if not base_url:
        return []
    request = urllib.request.Request(f"{base_url.rstrip('/')}/models")
    if key:
        request.add_header("Authorization", f"Bearer {key}")
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            said: Any = json.loads(answer.read(MOST_READ))
    except (OSError, ValueError, http.client.HTTPException):
        return []
    listed = said.get("data") if isinstance(said, dict) else None
    names = [each.get("id") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [name for name in names if isinstance(name, str) and name]


def describe_models(names: list[str]) -> str:
    """Describe the names in a phrase; empty if there are none."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"the server has {', '.join(names[:MOST_NAMED])}{more}" if names else ""
