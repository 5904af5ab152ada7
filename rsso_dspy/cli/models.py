"""Whether the models of a backend can answer, found before anything is planned."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from rsso_dspy.errors import BackendUnreachable, ConfigError, UsageError, list_causes
from rsso_dspy.redact import redact, strip_credentials

if TYPE_CHECKING:
    from rsso_dspy.config import BackendConfig

CONNECT_SECONDS, FAULT_SECONDS = 1.5, 2.5  # that a server may take to accept a connection, and to name a fault
LONGEST_REFUSAL = 10_000  # bytes that are read of what a server says is wrong
FIXES = {"base_url": "start the server, or change", "key_variable": "set the key again, or change", "model": "change"}


def check_models(table: "BackendConfig", name_setting: Callable[[str, str], str]) -> None:
    """Raise what keeps the models of a backend from answering, with the option or key that named them: a missing or
    refused key, a server that is not there, a model that it does not have. No model is asked anything."""
    from dspy.utils.exceptions import LMTimeoutError

    from rsso_dspy.config import EMBEDDED
    from rsso_dspy.lm import NATIVE, Backend, resolve_provider_address
    from rsso_dspy.logged_lm import call_with_timeout, import_litellm

    backend, seen = Backend(table), set[tuple[str | None, ...]]()
    for role in ("actor", *table.roles):
        settings, named = table.resolve_role(role), name_setting(role, "model")
        model = settings.model or ""
        provider, _, name = model.partition("/")
        try:
            key = backend.lm(role, 0).kwargs.get("api_key")
        except UsageError as error:
            raise type(error)(f"{error} (named by {named})") from None
        if provider not in NATIVE and model != EMBEDDED:
            litellm = import_litellm()
            try:
                litellm.get_llm_provider(model, api_base=settings.base_url)
            except litellm.exceptions.BadRequestError:
                raise ConfigError(f"no provider is called {provider!r}: change {named}, e.g. openai/{name}") from None
        key = key or (None if settings.base_url else os.environ.get(f"{provider.upper()}_API_KEY"))
        place = (settings.base_url or resolve_provider_address(model), provider, name, key)
        if place in seen or not (settings.base_url or provider in NATIVE):
            continue
        seen.add(place)
        with suppress(LMTimeoutError):  # it is there, and slow
            wrong, what = call_with_timeout(FAULT_SECONDS, partial(_find_fault, *place), name)
            if wrong:
                kind = BackendUnreachable if wrong == "base_url" else ConfigError
                raise kind(f"{what}: {FIXES[wrong]} {name_setting(role, wrong)} (of the {role})")


def _find_fault(url: str, provider: str, name: str, key: str | None) -> tuple[str, str]:
    """Return the setting that is wrong and why, after asking a server of its model, and then with a request without
    messages, which costs nothing. Empty where nothing is known to be wrong. No redirect is followed with the key."""
    import requests

    from rsso_dspy.lm import NATIVE, find_proxy

    base, shown = url.rstrip("/") + ("" if urlsplit(url).path.strip("/") else "/v1"), strip_credentials(url)
    talks, headers = "chat/completions", {"Authorization": f"Bearer {key}"} if key else {}
    if provider == "anthropic":
        talks, headers = "messages", {"x-api-key": key or "", "anthropic-version": "2023-06-01"}

    def ask(way: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
        options: Any = {"timeout": CONNECT_SECONDS, "allow_redirects": False, "stream": True, "auth": lambda sent: sent}
        with requests.request(way, f"{base}/{path}", headers=headers, json=body, **options) as answer:
            said = answer.raw.read(LONGEST_REFUSAL, decode_content=True).decode(errors="replace")
            return answer.status_code, redact(" ".join(said.split()))

    try:
        status, said = ask("GET", f"models/{quote(name, safe='')}")
        if provider in NATIVE and status != 200 and not (status == 404 and name in said):
            status, said = ask("POST", talks, {"model": name, "messages": [], "max_tokens": 1})
    except requests.exceptions.SSLError:
        return "", ""  # the client of the model may trust other certificates
    except requests.ConnectionError as error:
        way = f" through {proxy}, a proxy of the environment," if (proxy := find_proxy(url)) else ""
        return "base_url", f"nothing answers at {shown}{way} ({list_causes(error)[-1]})"
    except requests.RequestException:
        return "", ""
    if provider in NATIVE and status in (401, 403) and (key or f"{provider.upper()}_API_KEY" not in os.environ):
        return "key_variable", f"{shown} refuses {'this' if key else 'to answer without a'} key ({status}: {said:.200})"
    if provider in NATIVE and status == 404:
        wrong = "model" if name in said or "model" in said.lower() else "base_url"
        return wrong, f"{shown} does not have {name if wrong == 'model' else f'/{talks}'} (404: {said:.200})"
    return "", ""
