"""Server addresses: display without secrets, detection of this machine, and proxies.

    find_proxy("http://model.example/v1")       # "http://127.0.0.1:3128", without user and password, or ""
    bypass_proxy("http://127.0.0.1:8000/v1")    # reaches that without a proxy, whatever the shell sets

The environment's proxies (`http_proxy`, `https_proxy`, `all_proxy`, `no_proxy`, in either case) apply as for any HTTP
tool, except to this machine: a remote proxy could not reach it, and would see prompts and keys.
"""

import os
import re
import socket
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")
"""Names of this machine that always bypass proxies; libraries recognize its addresses themselves."""


def strip_credentials(address: str) -> str:
    """Return the address without user, password, query and fragment."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return re.sub(r"(?<=//)[^/\s]*@", "", address).partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def strip_addresses(table: dict[str, Any]) -> None:
    """Strip every `base_url` of nested tables, in place."""
    for key, value in table.items():
        if isinstance(value, dict):
            strip_addresses(value)
        elif key == "base_url" and value:
            table[key] = strip_credentials(value)


def is_local(address: str) -> bool:
    """Return whether the address is of this machine: a loopback address in any notation, or its own name."""
    host = (urlsplit(address).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost") or host == socket.gethostname().lower():
        return True
    try:
        number = ip_address(host)
    except ValueError:
        try:
            number = ip_address(socket.inet_aton(host))  # 127.1
        except OSError:
            return False
    number = getattr(number, "ipv4_mapped", None) or number
    return number.is_loopback or number.is_unspecified


def find_proxy(address: str) -> str:
    """Return the proxy for this address without user and password, or an empty string."""
    parts = urlsplit(address)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or is_local(address) or proxy_bypass(parts.hostname or ""):
        return ""
    return strip_credentials(proxy if "://" in proxy else f"http://{proxy}")


def bypass_proxy(*addresses: str | None) -> None:
    """Make every HTTP library of this process reach this machine, and `addresses` on it, without a proxy.

    All libraries read `no_proxy`, but only plain names mean the same to all.
    """
    proxies = getproxies()
    if not {"http", "https", "all"} & set(proxies) or proxies.get("no", "").strip() == "*":
        return
    hosts = [urlsplit(address).hostname or "" for address in addresses if address and is_local(address)]
    spared = [name.strip() for name in proxies.get("no", "").split(",") if name.strip()]
    names = ",".join(dict.fromkeys([*spared, *LOOPBACK, *hosts]))
    if names != proxies.get("no"):
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = names
