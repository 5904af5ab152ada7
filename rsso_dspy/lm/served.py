"""The models that a server lists, shown when a user names a model that it does not have.

list_models("http://127.0.0.1:8000/v1")     # ["smollm2-135m"]; [] where there is no such list
"""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from rsso_dspy.lm.request_limits import RequestTimeout, call_with_timeout

SECONDS = 5.0
"""Total time of the request."""
MOST_READ = 1_000_000
"""Maximum number of bytes read of a list."""
MOST_NAMED = 12
LONGEST_NAME = 200
"""Maximum characters kept of a model name that a server reports."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Make a redirect an error."""


def list_models(base_url: str | None, key: str | None = None) -> list[str]:
    """Return the names of the models at an address in OpenAI's format; empty if the server gives no such list in time.

    Follows no redirect, which would take the key along.
    """
    if not base_url:
        return []
    headers = {"Authorization": f"Bearer {key}"} if key else {}

    def read_answer() -> Any:
        request = urllib.request.Request(f"{base_url.rstrip('/')}/models", headers=headers)
        try:
            with urllib.request.build_opener(_NoRedirects).open(request, timeout=SECONDS) as answer:
                return json.loads(answer.read(MOST_READ))
        except urllib.error.HTTPError as refused:
            refused.close()  # it holds the connection
            return None

    try:
        said = call_with_timeout(SECONDS, read_answer)
    except (OSError, ValueError, RecursionError, http.client.HTTPException, RequestTimeout):
        return []
    listed = said.get("data") if isinstance(said, dict) else None
    names = [each.get("id") for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    return [name[:LONGEST_NAME] for name in names if isinstance(name, str) and name]


def describe_models(names: list[str]) -> str:
    """Describe the names in a phrase; empty if there are none."""
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return f"the server has {', '.join(names[:MOST_NAMED])}{more}" if names else ""
