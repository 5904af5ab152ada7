"""Keys and passwords, struck out of every text that leaves the process.

    watch_variable("MY_KEY")                # whatever it holds when a text leaves is a secret
    redact("invalid key sk-abc123...")      # "invalid key ***"
    redact_json('{"error": "..."}')         # the same in its strings: names, numbers and structure stay

Files, logs, the terminal, pages, tables and what a server is told pass through here. Secrets are the values of
variables whose name says so (`*_API_KEY`, `*_TOKEN`, `*_PASSWORD`, ...), of every `key_variable` of a configuration,
whatever else was sent as a key, and user and password in any address. Struck out are the value itself, quoted, escaped,
percent-encoded and in base64 (alone or behind a user's name), and every stretch longer than 12 characters of it or of
its base64.

No secret is what is shorter than 8 characters (a placeholder like EMPTY) or looks like a word: letters of one case,
fewer than 20. Ordinary text would be full of holes.
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
"""Characters of a secret at least."""
LONGEST_WORD = 19
"""Letters of one case that may be a word."""
STRETCH = 13
"""Characters of a secret that are struck out wherever they stand: providers quote keys in part."""
BLOCK = 7
"""Every stretch holds, where a text is cut into blocks of this length, one of them whole."""

_SECRET_NAME = re.compile(
    r".*(API_?KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE).*|.*(KEY|KEY_ID|TOKEN|_PAT)(_\d+)?", re.IGNORECASE
)
_SECRET_FIELD = re.compile(r".*(key|token|secret|passw|sig).*|code|auth", re.IGNORECASE)
_USERINFO = re.compile(r"//([^/?#\s]*)@")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_FIELD = re.compile(r"[A-Za-z][A-Za-z_]*\d?")
"""Names of JSON objects as this program writes them."""

_SOLID = "".join(chr(code) for code in range(33, 127) if chr(code) not in "\"'\\<>&,;(){}[]`")
"""What a stretch of a key may consist of: nothing that JSON, HTML or a sentence is built of."""
_WORD = re.compile(f"[{re.escape(_SOLID)}]{{{STRETCH},}}")
_SPACED = bytes(code if chr(code) in _SOLID else 32 for code in range(256))

Redactor = Callable[[str], str]

_registered: set[str] = set()
_watched: set[str] = set()
_addresses: set[str] = set()


def register_secret(value: str | None) -> None:
    """Strike out this value from now on."""
    if value:
        _registered.add(value)


def watch_variable(name: str | None) -> None:
    """Strike out whatever this environment variable holds."""
    if name:
        _watched.add(name)


def register_address(address: str | None) -> None:
    """Strike out user, password and keys in this address."""
    if address and ("@" in address or "?" in address):
        _addresses.add(address)


def redact(text: str) -> str:
    """The text without any secret."""
    return make_redactor()(text)


def redact_json(text: str) -> str:
    """JSON, or JSON lines, without any secret in a string. Names of fields stay as they are."""
    known = _build_current_filter()
    return known.redact_json(text) if known else text


def make_redactor() -> Redactor:
    """`redact` for many texts in a row: the environment is looked at once."""
    known = _build_current_filter()
    return known.redact if known else lambda text: text


def _build_current_filter() -> "_SecretFilter | None":
    """What strikes out all secrets of this moment; None when there are none."""
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
    """Whether it says where something is, an address or a file: messages are full of those."""
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
    """Whether it is one, and no placeholder and no word."""
    one_case = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    return len(value) >= SHORTEST and len(set(value)) > 3 and not (one_case and len(value) <= LONGEST_WORD)


def _find_address_secrets(address: str) -> tuple[set[str], dict[str, str]]:
    """Secrets of an address, and what else in it is withheld and what stands in its place: short passwords are struck
    out together with their user."""
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
    """How a whole secret may stand in a text."""
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
    """What base64 makes of a secret whatever stands before and behind it, such as `user:`."""
    data = secret.encode("utf-8", "surrogatepass")
    for ahead in range(3):
        whole = base64.b64encode(bytes(ahead) + data).decode().rstrip("=")
        first = -(-8 * ahead // 6)
        last = 8 * (ahead + len(data)) // 6
        yield from (whole[first:last], whole[first:last].replace("+", "-").replace("/", "_"))


class _SecretFilter:
    """Strikes out `literals`, each for what it maps to, and every stretch of `runs`."""

    def __init__(self, literals: dict[str, str], runs: set[str]):
        self._literals = dict(sorted(literals.items(), key=lambda each: -len(each[0])))
        stretches = {run[at : at + STRETCH] for run in runs for at in range(len(run) - STRETCH + 1)}
        self._stretches = {each for each in stretches if len(set(each)) > 4}  # a ruled line is none
        self._blocks = {each[at : at + BLOCK].encode() for each in self._stretches for at in range(STRETCH - BLOCK + 1)}

    def redact(self, text: str) -> str:
        return self._strike_out(text) if self._is_suspect(text) else text

    def redact_json(self, text: str) -> str:
        return _STRING.sub(self._redact_string, text) if self._is_suspect(text) else text

    def _is_suspect(self, text: str) -> bool:
        """Whether there may be something to strike out: quick, since there hardly ever is."""
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
        """The word without the stretches in it, each as long as it goes."""
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
        """A JSON string, decoded and encoded again where something is struck out of it."""
        token, colon = match[0], match[1] or ""
        try:
            said = json.loads(token.removesuffix(colon), strict=False)
        except ValueError:
            return self._strike_out(token)
        struck = self._strike_out(said)
        if struck == said or (colon and _FIELD.fullmatch(said)):
            return token
        return json.dumps(struck) + colon
