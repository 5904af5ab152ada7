"""Redaction of keys and passwords in all text that leaves the process: files, logs, terminal, pages, data for servers.

    watch_variable("MY_KEY")                # its value at the time of output is a secret
    redact("invalid key sk-abc123...")      # "invalid key ***"
    redact_json('{"error": "..."}')         # changes only strings: names, numbers and structure stay

docs/BACKENDS.md says what is a secret, and in which forms it is found.
"""

import base64
import html
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit, urlunsplit

STRUCK = "***"
SHORTEST = 8  # minimum length of a secret
LONGEST_WORD = 19  # maximum length of letters of one case that count as a word
STRETCH = 13  # minimum length of a part that is removed, since providers quote keys in part
BLOCK = 7  # length of a block, one of which every such part contains whole

_SECRET_NAME = re.compile(
    r".*(API_?KEY|SECRET|PASSWORD|PASSWD|PASSPHRASE).*|.*(KEY|KEY_ID|TOKEN)(_\d+)?", re.IGNORECASE
)
_SECRET_WORDS = {
    "key", "keys", "apikey", "apikeys", "token", "tokens", "secrets", "credential", "credentials", "bearer", "pat",
    "auth", "authorization", "headers", "jwt", "cookie",
}  # fmt: skip
"""Words in the name of a variable, or of an option, that holds a secret."""
_LAST_SECRET_WORDS = {"pwd", "pass"}  # such words at the end of a name, after others: DB_PWD, not the shell's PWD
_SECRET_FIELD = re.compile(r".*(key|token|secret|passw|sig).*|code|auth", re.IGNORECASE)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?', re.DOTALL)
_FIELD = re.compile(r"[A-Za-z][A-Za-z_]*\d?")  # field names of JSON objects as this program writes them
_RUN = re.compile(rf"[^\x00-\x20\x7f-\U0010ffff\"'\\<>&,;(){{}}\[\]`]{{{STRETCH},}}")
"""Characters of parts of keys: none that structure JSON, HTML or sentences."""

Redactor = Callable[[str], str]
_registered: set[str] = set()
_watched: set[str] = set()
_addresses: set[str] = set()
_changes = 0  # number of changes of the environment and of what is registered


def _count_change(event: str, _: object) -> None:
    global _changes
    if event in ("os.putenv", "os.unsetenv"):
        _changes += 1


sys.addaudithook(_count_change)  # reading all variables for each text would take longer than all else


def _add_known(known: set[str], text: str | None) -> None:
    global _changes
    if text and text not in known:
        known.add(text)
        _changes += 1


register_secret = partial(_add_known, _registered)  # redacts a value from now on
watch_variable = partial(_add_known, _watched)  # redacts the value of an environment variable
register_address = partial(_add_known, _addresses)  # redacts user, password and keys in an address


def is_secret_name(name: str) -> bool:
    """Return whether a variable or an option of this name holds a secret: one of its words says so."""
    if _SECRET_NAME.fullmatch(name):
        return True
    words = re.split(r"[\W_]+", name.lower())
    ends_in_secret_word = len(words) > 1 and words[-1] in _LAST_SECRET_WORDS
    return ends_in_secret_word or not _SECRET_WORDS.isdisjoint(words)


def strip_credentials(address: str) -> str:
    """Return the address without user, password, query and fragment."""
    parts = urlsplit(address)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def strip_addresses(table: dict[str, Any]) -> None:
    """Strip every `base_url` of nested tables, in place."""
    for key, value in table.items():
        if isinstance(value, dict):
            strip_addresses(value)
        elif key == "base_url" and value:
            table[key] = strip_credentials(value)


def redact(text: str) -> str:
    return make_redactor()(text)


def redact_json(text: str) -> str:
    """Return JSON or JSON lines without secrets in strings; field names stay."""
    strike = make_redactor()

    def strike_string(match: re.Match[str]) -> str:
        token = match[0]
        colon = match[1] or ""
        try:
            value = json.loads(token.removesuffix(colon), strict=False)
        except ValueError:
            return strike(token)
        if colon and _FIELD.fullmatch(value):
            return token
        struck = strike(value)
        return token if struck == value else json.dumps(struck) + colon

    if strike(text) == text:
        return text
    return _STRING.sub(strike_string, text)


def make_redactor() -> Redactor:
    """Return `redact` for many texts in a row, made anew when the environment or what is registered changes."""
    return _read_redactor(_changes)


@lru_cache(maxsize=1)
def _read_redactor(_: int) -> Redactor:
    values = set(_registered)
    addresses = set(_addresses)
    for name in os.environ:
        value = os.environ.get(name, "")
        if name in _watched or (is_secret_name(name) and not is_location(value)):
            values.add(value)

        is_address = "//" in value
        is_proxy = name.lower().endswith("_proxy")
        if "@" in value and (is_address or is_proxy):
            addresses.add(value if is_address else f"//{value}")
    return _build_redactor(frozenset(values), frozenset(addresses))


@lru_cache(maxsize=4096)
def is_location(value: str) -> bool:
    """Return whether the value is an address or a path, which messages often contain."""
    if re.match(r"\w+://", value):
        return True
    top = re.match(r"/[^/]+|~|\.\.?(?=/)", value)
    return top is not None and os.path.exists(os.path.expanduser(top[0]))


def _is_secret(value: str) -> bool:
    is_one_case = value.isalpha() and (value.islower() or value.isupper() or value.istitle())
    is_word = is_one_case and len(value) <= LONGEST_WORD
    return len(value) >= SHORTEST and len(set(value)) > 3 and not is_word


@lru_cache(maxsize=16)
def _build_redactor(values: frozenset[str], addresses: frozenset[str]) -> Redactor:
    candidates = set(values)
    literals: dict[str, str] = {}
    for address in addresses:
        for secret, form, place in _list_address_secrets(address):
            candidates.add(secret)
            literals[form] = place

    secrets = set()
    for candidate in candidates:
        for part in (candidate.strip(), candidate.strip(" \t\r\n\"'")):
            if _is_secret(part):
                secrets.add(part)
    for secret in secrets:
        for form in _list_written_forms(secret):
            literals[form] = STRUCK
    ordered = sorted(literals.items(), key=lambda item: -len(item[0]))

    stretches: set[str] = set()
    for secret in secrets:
        for form in (secret, *_list_base64_forms(secret)):
            stretches.update(_list_stretches(form))
    blocks = set()
    for stretch in stretches:
        for at in range(STRETCH - BLOCK + 1):
            blocks.add(stretch[at : at + BLOCK])

    def strike_run(match: re.Match[str]) -> str:
        """Return the run without parts of secrets, each as long as possible."""
        run = match[0]
        if not any(run[at : at + BLOCK] in blocks for at in range(0, len(run), BLOCK)):
            return run

        pieces = []
        at = 0
        while at < len(run):
            end = at
            while run[end : end + STRETCH] in stretches:
                end += 1
            if end > at:
                pieces.append(STRUCK)
                at = end + STRETCH - 1
            else:
                pieces.append(run[at])
                at += 1
        return "".join(pieces)

    def strike(text: str) -> str:
        for literal, place in ordered:
            text = text.replace(literal, place)
        return _RUN.sub(strike_run, text) if blocks else text

    return strike


def _list_stretches(form: str) -> Iterator[str]:
    """Yield the parts of a secret that are removed wherever they stand."""
    for run in _RUN.findall(form):
        for at in range(len(run) - STRETCH + 1):
            stretch = run[at : at + STRETCH]
            if len(set(stretch)) > 4:  # a ruled line is not a secret
                yield stretch


def _list_address_secrets(address: str) -> Iterator[tuple[str, str, str]]:
    """Yield secrets, each with a text and its replacement: short passwords go together with their user."""
    if match := re.search(r"//([^/?#\s]*)@", address):
        login = match[1]
        user, colon, password = login.partition(":")
        for decode in (str, unquote):
            secret = decode(password if colon else user)
            form = decode(login)
            if not password:
                yield secret, secret, secret
                continue
            yield secret, f"{form}@", f"{STRUCK}@"
            if len(form) >= SHORTEST:
                for encoded in _list_base64_forms(form):
                    yield secret, encoded, STRUCK

    for name, value in parse_qsl(address.partition("?")[2]):
        if _SECRET_FIELD.fullmatch(name) and len(value) > 3:
            for form in (value, quote(value, safe="")):
                yield value, f"{name}={form}", f"{name}={STRUCK}"


def _list_written_forms(secret: str) -> Iterator[str]:
    """Yield the encodings in which a whole secret may appear."""
    escaped = html.escape(secret)
    yield secret
    yield escaped
    yield escaped.replace("&#x27;", "&#39;")

    for quoted in (repr(secret), ascii(secret), json.dumps(secret), json.dumps(secret, ensure_ascii=False)):
        yield quoted[1:-1]

    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub("%[0-9A-F]{2}", lambda code: code[0].lower(), encoded)

    yield from _list_base64_forms(secret)


def _list_base64_forms(secret: str) -> Iterator[str]:
    """Yield the base64 forms of a secret for any text around it, such as `user:`."""
    data = secret.encode("utf-8", "surrogatepass")
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + data).decode().rstrip("=")
        start = -(-8 * offset // 6)
        end = 8 * (offset + len(data)) // 6
        form = encoded[start:end]
        yield form
        yield form.replace("+", "-").replace("/", "_")
