"""What is installed and configured: `rsso-dspy doctor` and `rsso-dspy config`."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlsplit

import typer

from rsso_dspy.cli.options import Settings, echo, expand_options
from rsso_dspy.errors import BackendFailure, BackendUnreachable, ConfigError, UsageError, list_causes
from rsso_dspy.files import atomic_write_text, check_output_path
from rsso_dspy.redact import redact, strip_credentials

if TYPE_CHECKING:
    from rsso_dspy.config import BackendConfig, Config

config_app = typer.Typer(help="Show the active configuration, or write a file to start from.", no_args_is_help=True)
PATIENCE = 15.0  # time limit in seconds for one short answer of a backend
CONNECT_SECONDS, FAULT_SECONDS = 1.5, 2.5  # that a server may take to accept a connection, and to name a fault
SHOWN = 40  # maximum number of printed characters of an answer
LONGEST_REFUSAL = 10_000  # bytes that are read of what a server says is wrong


@expand_options
def check_setup(settings: Settings) -> None:
    """Check simulator, embedder and backend by using each of them."""
    from rsso_dspy.cli.play import describe_proxies

    config = settings.build()
    # A self-hosted server may have to load its model first.
    patience = PATIENCE if settings.model is None else config.active_backend.timeout
    checks: dict[str, Callable[[], str]] = {
        "simulator": lambda: config.active_benchmark.smoke_test(config.environment),
        "embedder": lambda: _check_embedder(config),
        f"backend {config.backend}": lambda: _check_backend(config, patience, partial(settings.name_setting, config)),
    }
    for line in describe_proxies(config):
        echo(f"note    {line}")
    failed = 0
    for name, check in checks.items():
        echo(f"checking {name} ...", err=True)
        try:
            echo(f"ok      {name}: {check()}")
        except Exception as error:  # report every failure as a finding
            failed += 1
            echo(f"failed  {name}: {' '.join(redact(str(error)).split())}", fg="red")
    if failed:
        raise typer.Exit(1)


def _check_embedder(config: "Config") -> str:
    from rsso_dspy.embed import Embedder

    embedder = Embedder(config.embedder.model_copy(update={"timeout": PATIENCE, "retries": 0}))
    embedder.check()
    return f"{config.embedder.model} gives {embedder(['a text']).shape[1]} dimensions"


def _check_backend(config: "Config", seconds: float, name_setting: Callable[[str, str], str]) -> str:
    import dspy
    from dspy.utils.exceptions import AdapterParseError

    from rsso_dspy.lm import Backend

    check_models(config.active_backend, name_setting)
    backend = Backend(config.active_backend.model_copy(update={"timeout": seconds, "retries": 0}))
    own, at = config.active_backend, f"--set backends.{config.backend}"
    try:
        with dspy.context(disable_history=True, adapter=backend.adapter):
            answer = dspy.Predict("question -> answer")(question="Is water wet?", lm=backend.lm("actor", 0)).answer
    except AdapterParseError as error:
        raise BackendFailure(
            f"{own.model} answered {redact(str(error.lm_response or ''))[:SHOWN]!r}, which adapter {own.adapter} "
            f"cannot parse. Try {at}.adapter={'chat' if own.adapter == 'json' else 'json'}; {at}.max_tokens="
            f"{2 * (own.max_tokens or 1024)} if the answer was cut off; or another model"
        ) from None
    rule = " (rule-based, offline)" if backend.rule_based else ""
    return f"{own.model}{rule} answered {redact(str(answer))[:SHOWN]!r}"


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


@config_app.command("show")
@expand_options
def show_config(settings: Settings) -> None:
    """Print the active configuration as JSON, with every key, the selected backend, what the protocol resolves to, and
    the hash of everything that results depend on."""
    from rsso_dspy.protocol import resolve_protocol

    config = settings.build()
    resolved = {"resolved_protocol": asdict(resolve_protocol(config))}
    echo(json.dumps({"hash": config.hash(), **config.dump_settings(), **resolved}, indent=1))


@config_app.command("init")
def write_config(path: Annotated[Path, typer.Argument(help="File to write.")] = Path("rsso.toml")) -> None:
    """Write a configuration file with every key, its default and its meaning."""
    from rsso_dspy.config import render_config_template

    if path.exists():
        raise UsageError(f"{path} already exists; name another file or move it away")
    check_output_path(path, "file")
    atomic_write_text(path, render_config_template())
    echo(f"wrote {path}; commands started in this folder read it, others with --config {path}")
