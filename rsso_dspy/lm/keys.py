"""API keys, read from the environment when they are used and stored nowhere else."""

import os

from rsso_dspy.errors import ConfigError, MissingKey
from rsso_dspy.redact import register_secret, watch_variable


def read_api_key(variable: str, model: str, otherwise: str) -> str:
    """Return the key in an environment variable, without surrounding white space, which files with Windows line ends
    leave. `otherwise` names an option that needs no key. Raises `MissingKey` if the variable is not set, `ConfigError`
    for a key that cannot be sent."""
    watch_variable(variable)
    key = os.environ.get(variable, "").strip()
    if not key:
        raise MissingKey(
            f"{model} needs a key, and the environment variable {variable} is not set: "
            f"`export {variable}=...`, or use {otherwise}, which needs none"
        )
    check_api_key(key, variable)
    register_secret(key)
    return key


def check_api_key(key: str, variable: str) -> None:
    """Raise `ConfigError` for a key that no HTTP header can hold."""
    if odd := next((letter for letter in key if not " " <= letter <= "~"), None):
        what = "a line break" if odd in "\r\n" else f"the character U+{ord(odd):04X}"
        raise ConfigError(
            f"the key in {variable} contains {what}, which no request can carry: set it again to the key alone, "
            f"`export {variable}=...`"
        )


def strip_provider_key(model: str) -> str | None:
    """Return the stripped key of the provider's usual variable if it has surrounding white space, which libraries would
    send along; None otherwise. Raises `ConfigError` for a key that cannot be sent."""
    variable = f"{model.partition('/')[0].upper()}_API_KEY"
    found = os.environ.get(variable, "")
    key = found.strip()
    if key == found:
        if key:
            check_api_key(key, variable)
        return None
    return read_api_key(variable, model, "--backend embedded") if key else None
