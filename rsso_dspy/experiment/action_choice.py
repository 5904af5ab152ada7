"""Checks, before a run, that benchmark and backend support `protocol.action_choice`."""

from rsso_dspy.config import EMBEDDED, Config
from rsso_dspy.errors import ConfigError
from rsso_dspy.lm import Backend

OWN_ENDPOINTS = ("openai", "anthropic")
"""Providers whose endpoints accept only enumerations of a few hundred words."""


def check_action_choice(config: Config) -> None:
    """Raise `ConfigError` if `listed` or `constrained` is not supported."""
    choice = config.protocol.action_choice
    if choice == "listed":
        _check_listed(config)
    elif choice == "constrained":
        _check_constrained(config)


def _check_listed(config: Config) -> None:
    lists = config.active_benchmark.admissible
    if lists != "short":
        what = "lists hundreds of actions a step" if lists == "long" else "does not list them"
        instead = "; constrained holds answers to them without showing them" if lists == "long" else ""
        raise ConfigError(
            f"protocol.action_choice = listed shows the actions that can be taken, and {config.benchmark} {what}: "
            f"leave it out{instead}"
        )


def _check_constrained(config: Config) -> None:
    own, what = config.active_backend, "protocol.action_choice = constrained holds answers to the actions that"
    model = Backend(own).models["actor"]
    if config.active_benchmark.admissible == "none":
        raise ConfigError(f"{what} can be taken, and {config.benchmark} does not list them: leave it out")
    if model == EMBEDDED:
        raise ConfigError(f"{what} can be taken by a server, and {EMBEDDED} has none: name another --backend")
    address = own.roles["actor"].base_url if "actor" in own.roles else None
    if model.partition("/")[0] in OWN_ENDPOINTS and not (address or own.base_url):
        raise ConfigError(
            f"{what} can be taken, some hundreds, which the endpoint of {model} takes no list of: leave it out, or use "
            "a server of your own (llama.cpp, vLLM, Ollama)"
        )
    if own.adapter != "schema":
        raise ConfigError(f"{what} can be taken by a schema: add --set backends.{config.backend}.adapter=schema")
