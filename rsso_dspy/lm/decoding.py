"""Decoding settings: which ones a provider supports, and under which names they are sent.

    build_decoding_options("actor", settings, seeded=True)      # {"top_p": 0.9}

Some providers silently drop settings. Results would then name settings that nobody used, so such settings are refused
before anything is sent.
"""

from typing import Any

from rsso_dspy.config import RoleOverride
from rsso_dspy.errors import ConfigError

NOT_TAKEN = {
    "anthropic": ("repetition_penalty", "seed"),
    "ollama": ("top_k", "repetition_penalty"),
    "ollama_chat": ("top_k", "repetition_penalty"),
    "openai": ("top_k", "repetition_penalty"),
}
"""Provider to the settings that it does not support. For Ollama these are the limits of its OpenAI format."""

MODELFILE = "put `PARAMETER {name} {value}` into the model's Modelfile"
INSTEAD = {
    "anthropic": "leave it out",
    "ollama": MODELFILE,
    "ollama_chat": MODELFILE,
    "openai": "leave it out, or name a server of your own with base_url",
}
"""Provider to advice on what to do instead."""

HOTTEST = {"anthropic": 1.0}
"""Provider to the highest temperature that it supports; DSPy would silently reduce a higher one to it."""

OLLAMA_NAMES = {"repetition_penalty": "repeat_penalty"}
"""Setting to its name in a Modelfile."""


def build_decoding_options(role: str, settings: RoleOverride, seeded: bool) -> dict[str, Any]:
    """Return the decoding options of a model except temperature and length. Raises `ConfigError` for a setting that the
    provider does not support."""
    found = {"top_p": settings.top_p, "top_k": settings.top_k, "repetition_penalty": settings.repetition_penalty}
    options: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    provider = (settings.model or "").partition("/")[0]
    if (settings.temperature or 0) > HOTTEST.get(provider, float("inf")):
        raise ConfigError(
            f"model {settings.model!r} of role {role} does not support temperature {settings.temperature}: "
            f"{HOTTEST[provider]:g} is the highest that {provider} supports"
        )
    for name in list_refused_settings(settings.model or "", settings.base_url):
        if name in options or (name == "seed" and seeded):
            why = INSTEAD[provider].format(name=OLLAMA_NAMES.get(name, name), value=options.get(name))
            otherwise = "" if why.startswith("leave") else f", or leave {name} out"
            raise ConfigError(f"model {settings.model!r} of role {role} does not support {name}: {why}{otherwise}")
    if "repetition_penalty" in options:
        options["repeat_penalty"] = options["repetition_penalty"]  # llama.cpp's name; vLLM uses the other one
    return options


def list_refused_settings(model: str, base_url: str | None) -> tuple[str, ...]:
    """Settings that the provider of a model does not take; none where a server of one's own speaks OpenAI's format."""
    provider = model.partition("/")[0]
    return () if provider == "openai" and base_url else NOT_TAKEN.get(provider, ())


def is_litellm_needed(settings: RoleOverride) -> bool:
    """Return whether LiteLLM must send the settings, because DSPy's own client omits them in OpenAI's format."""
    provider = (settings.model or "").partition("/")[0]
    return provider in ("openai", "hosted_vllm") and not (settings.top_k is settings.repetition_penalty is None)


def is_stochastic_decoding(settings: RoleOverride) -> bool:
    """Return whether decoding can draw other than the likeliest token, as a provider's own temperature (None) is taken
    to do. A seed changes nothing at temperature 0."""
    return settings.temperature != 0 and settings.top_k != 1
