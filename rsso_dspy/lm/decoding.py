"""How tokens are drawn: which settings a provider takes, and under which names they leave.

    build_decoding_options("actor", settings, seeded=True)      # {"top_p": 0.9}

A setting that a provider drops without a word would make results of settings that nobody played with, so it is refused
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
"""Provider to the settings that it does not take. Ollama's are those of its OpenAI format, which it is spoken to in."""

MODELFILE = "put `PARAMETER {name} {value}` into the model's Modelfile"
INSTEAD = {
    "anthropic": "leave it out",
    "ollama": MODELFILE,
    "ollama_chat": MODELFILE,
    "openai": "leave it out, or name a server of your own with base_url",
}
"""Provider to what to do about it."""

HOTTEST = {"anthropic": 1.0}
"""Provider to the highest temperature that it takes; DSPy would send that in place of a higher one."""

OLLAMA_NAMES = {"repetition_penalty": "repeat_penalty"}
"""What a Modelfile calls them."""


def build_decoding_options(role: str, settings: RoleOverride, seeded: bool) -> dict[str, Any]:
    """The options of a model besides temperature and longest answer. Raises `ConfigError` for a setting that its
    provider does not take."""
    found = {"top_p": settings.top_p, "top_k": settings.top_k, "repetition_penalty": settings.repetition_penalty}
    options: dict[str, Any] = {name: value for name, value in found.items() if value is not None}
    provider = (settings.model or "").partition("/")[0]
    if (settings.temperature or 0) > HOTTEST.get(provider, float("inf")):
        raise ConfigError(
            f"model {settings.model!r} of role {role} does not take temperature {settings.temperature}: "
            f"{HOTTEST[provider]:g} is the highest that {provider} does"
        )
    for name in NOT_TAKEN.get(provider, ()):
        if provider == "openai" and settings.base_url:
            break  # a server of one's own that speaks OpenAI's format
        if name in options or (name == "seed" and seeded):
            why = INSTEAD[provider].format(name=OLLAMA_NAMES.get(name, name), value=options.get(name))
            raise ConfigError(
                f"model {settings.model!r} of role {role} does not take {name}: {why}, or leave {name} out"
            )
    if "repetition_penalty" in options:
        options["repeat_penalty"] = options["repetition_penalty"]  # llama.cpp's name; vLLM knows the other one
    return options


def is_litellm_needed(settings: RoleOverride) -> bool:
    """Whether LiteLLM has to send the settings: DSPy's own engine leaves these fields out of OpenAI's format."""
    provider = (settings.model or "").partition("/")[0]
    return provider in ("openai", "hosted_vllm") and not (settings.top_k is settings.repetition_penalty is None)


def is_stochastic_decoding(settings: RoleOverride) -> bool:
    """Whether more than the likeliest token can be drawn. A seed alone changes nothing at temperature 0."""
    return bool(settings.temperature) and settings.top_k != 1
