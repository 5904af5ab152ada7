"""Redaction of keys and passwords in all text that leaves the process.

    watch_variable("MY_KEY")                # its value at the time of output is a secret
    redact("invalid key sk-abc123...")      # "invalid key ***"
    redact_json('{"error": "..."}')         # changes only strings: names, numbers and structure stay

Files, logs, the terminal, pages, tables and data for servers pass through here. Secrets are the values of variables
with telling names (`*_API_KEY`, `*_TOKEN`, `*_PASSWORD`, ...), of every `key_variable` of a configuration, everything
sent as a key, and user and password in any address. The filter removes the value itself, quoted, escaped,
percent-encoded and in base64 (alone or after a user's name), and every part of it or its base64 longer than 12
characters.

Values shorter than 8 characters (placeholders like EMPTY) or that look like a word (letters of one case, fewer than 20)
are not secrets, because ordinary text would be full of holes.
"""

import base64
import json
import os
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from urllib.parse import parse_qsl, quote, quote_plus, unquote

STRUCK = "***"

SHORTEST = 8
"""Minimum length of a secret."""
LONGEST_WORD = 19
"""Maximum length of letters of one case that count as a word."""
STRETCH = 13
"""Minimum length of a part of a secret that is removed: providers quote keys in part."""
BLOCK = 7
"""Block length such that every part of a secret contains at least one whole block."""

_SECRET_NAME = re.compile(
    r".*(API_?KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE).*|.*(KEY|KEY_ID|TOKEN|_PAT)(_\d+)?", re.IGNORECASE
)
_SECRET_FIELD = re.compile(r".*(key|token|secret|passw|sig).*|code|auth", re.IGNORECASE)
_USERINFO = re.compile(r"//([^/?#\s]*)@")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_FIELD = re.compile(r"[A-Za-z][A-Za-z_]*\d?")
"""Field names of JSON objects as this program writes them."""

_SOLID = "".join(chr(code) for code in range(33, 127) if chr(code) not in "\"'\\<>&,;(){}[]`")
"""Characters of parts of keys: none that structure JSON, HTML or sentences."""
_WORD = re.compile(f"[{re.escape(_SOLID)}]{{{STRETCH},}}")
_SPACED = bytes(code if chr(code) in _SOLID else 32 for code in range(256))

Redactor = Callable[[str], str]

_registered: set[str] = set()
_watched: set[str] = set()
_addresses: set[str] = set()


def register_secret(value: str | None) -> None:
    """Redact this value from now on."""
    if value:
        _registered.add(value)


def watch_variable(name: str | None) -> None:
    """Redact the value of this environment variable."""
    if name:
        _watched.add(name)


def register_address(address: str | None) -> None:
    """Redact user, password and keys in this address."""
    if address and ("@" in address or "?" in address):
        _addresses.add(address)


def redact(text: str) -> str:
    """Return the text without secrets."""
    return make_redactor()(text)


def redact_json(text: str) -> str:
    """Return JSON or JSON lines without secrets in strings; field names stay."""
    known = _build_current_filter()
    return known.redact_json(text) if known else text


def make_redactor() -> Redactor:
    """Return `redact` for many texts in a row, reading the environment once."""
    known = _build_current_filter()
    return known.redact if known else lambda text: text


def _build_current_filter() -> "_SecretFilter | None":
    """Build the filter of all current secrets; None if there are none."""
    values, addresses = set(_registered), set(_addresses)
    for name in os.environ:
        value = os.environ.get(name, "")
        if name in _watched or (_is_secret_name(name) and not _is_location(value)):
            values.add(value)
        if "@" in value and "//" in value:
            addresses.add(value)
        elif "@" in value and name.lower().endswith("_proxy"):
            addresses.add(f"//{value}")
    return _build_filter(frozenset(values), frozenset(addresses)) if values or addresses else None


@lru_cache(maxsize=4096)
def _is_secret_name(variable: str) -> bool:
    return bool(_SECRET_NAME.fullmatch(variable))


@lru_cache(maxsize=4096)
def _is_location(value: str) -> bool:
    """Return whether the value is an address or a path, which messages often contain."""
    top = re.match(r"/[^/]+|~|\.\.?(?=/)", value)
    return bool(re.match(r"\w+://", value)) or (top is not None and os.path.exists(os.path.expanduser(top[0])))


@lru_cache(maxsize=16)
def _build_filter(values: frozenset[str], addresses: frozenset[str]) -> "_SecretFilter | None":
    literals: dict[str, str] = {}
    secrets = set(values)
    for address in addresses:
        found, withheld = _find_address_secrets(address)
        secrets |= found
        literals |= withheld
    secrets = {part for secret in secrets for part in (secret.strip(), secret.strip(" \t\r\n\"'")) if _is_secret(part)}
    for secret in secrets:
        literals |= dict.fromkeys(_list_written_forms(secret), STRUCK)
    whole = [form for secret in secrets for form in (secret, *_list_base64_forms(secret))]
    return _SecretFilter(literals, {run for form in whole for run in _WORD.findall(form)}) if literals else None


def _is_secret(value: str) -> bool:
    """Return whether the value is a secret rather than a placeholder or a word."""
    one_case = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    return len(value) >= SHORTEST and len(set(value)) > 3 and not (one_case and len(value) <= LONGEST_WORD)


def _find_address_secrets(address: str) -> tuple[set[str], dict[str, str]]:
    """Return the secrets of an address, and further texts with their replacements.

    Short passwords are removed together with their user.
    """
    secrets: set[str] = set()
    withheld: dict[str, str] = {}
    if found := _USERINFO.search(address):
        user, colon, password = found[1].partition(":")
        secrets |= {password, unquote(password)} if colon else {user, unquote(user)}
        for form in {found[1], unquote(found[1])} if password else ():
            withheld[f"{form}@"] = f"{STRUCK}@"
            if len(form) >= SHORTEST:
                withheld |= dict.fromkeys(_list_base64_forms(form), STRUCK)
    for name, value in parse_qsl(address.partition("?")[2]):
        if _SECRET_FIELD.fullmatch(name) and len(value) > 3:
            secrets.add(value)
            withheld |= {f"{name}={form}": f"{name}={STRUCK}" for form in (value, quote(value, safe=""))}
    return secrets, withheld


def _list_written_forms(secret: str) -> Iterator[str]:
    """Return the encodings in which a whole secret may appear."""
    from html import escape

    yield from (
        secret,
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        escape(secret),
        escape(secret).replace("&#x27;", "&#39;"),
    )
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    for form in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield from (form, re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), form))
    yield from _list_base64_forms(secret)


def _list_base64_forms(secret: str) -> Iterator[str]:
    """Return the base64 forms of a secret for any text around it, such as `user:`."""
    data = secret.encode("utf-8", "surrogatepass")
    for ahead in range(3):
        whole = base64.b64encode(bytes(ahead) + data).decode().rstrip("=")
        first = -(-8 * ahead // 6)
        last = 8 * (ahead + len(data)) // 6
        yield from (whole[first:last], whole[first:last].replace("+", "-").replace("/", "_"))


class _SecretFilter:
    """Replaces `literals` by their values and removes every part of `runs`."""

    def __init__(self, literals: dict[str, str], runs: set[str]):
        self._literals = dict(sorted(literals.items(), key=lambda each: -len(each[0])))
        stretches = {run[at : at + STRETCH] for run in runs for at in range(len(run) - STRETCH + 1)}
        self._stretches = {each for each in stretches if len(set(each)) > 4}  # a ruled line is not a secret
        self._blocks = {each[at : at + BLOCK].encode() for each in self._stretches for at in range(STRETCH - BLOCK + 1)}

    def redact(self, text: str) -> str:
        return self._strike_out(text) if self._is_suspect(text) else text

    def redact_json(self, text: str) -> str:
        return _STRING.sub(self._redact_string, text) if self._is_suspect(text) else text

    def _is_suspect(self, text: str) -> bool:
        """Return quickly whether there may be a secret; usually there is none."""
        if any(literal in text for literal in self._literals):
            return True
        if not self._blocks or len(text) < STRETCH:
            return False
        words = {word for word in text.encode("utf-8", "replace").translate(_SPACED).split() if len(word) >= STRETCH}
        return any(word[at : at + BLOCK] in self._blocks for word in words for at in range(0, len(word), BLOCK))

    def _strike_out(self, text: str) -> str:
        for literal, place in self._literals.items():
            text = text.replace(literal, place)
        return _WORD.sub(self._redact_word, text) if self._blocks else text

    def _redact_word(self, match: re.Match[str]) -> str:
        """Return the word without parts of secrets, each as long as possible."""
        word, kept, at = match[0], "", 0
        while at < len(word):
            end = at
            while word[end : end + STRETCH] in self._stretches:
                end += 1
            if end > at:
                kept, at = kept + STRUCK, end + STRETCH - 1
            else:
                kept, at = kept + word[at], at + 1
        return kept

    def _redact_string(self, match: re.Match[str]) -> str:
        """Redact a JSON string, decoding and encoding it if something changes."""
        token, colon = match[0], match[1] or ""
        try:
            said = json.loads(token.removesuffix(colon), strict=False)
        except ValueError:
            return self._strike_out(token)
        struck = self._strike_out(said)
        if struck == said or (colon and _FIELD.fullmatch(said)):
            return token
        return json.dumps(struck) + colon
