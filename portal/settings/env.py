"""Reads the environment: `NAME`, else the file that `NAME_FILE` names; a bad value stops the start."""

import base64
import binascii
import os
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_TRUE = {"1", "true", "yes", "on"}
_COUNTRY_LETTERS = 2
_FALSE = {"0", "false", "no", "off", ""}


def text(name: str, default: str = "") -> str:
    """Return the setting as text."""
    file = os.environ.get(f"{name}_FILE")
    if file and name in os.environ:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set; keep one")
    if file:
        try:
            return Path(file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ImproperlyConfigured(f"{name}_FILE: cannot read {file}: {error.strerror}") from error
    return os.environ.get(name, default)


def required(name: str, why: str) -> str:
    """Return the setting or stop the start."""
    value = text(name)
    if not value:
        raise ImproperlyConfigured(f"{name} is not set: {why}")
    return value


def boolean(name: str, *, default: bool) -> bool:
    """Return a yes/no setting."""
    value = text(name, "1" if default else "0").lower()
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={value!r}: use 1 or 0")


def integer(name: str, default: int, *, low: int, high: int) -> int:
    """Return a whole number within bounds."""
    value = text(name, str(default))
    try:
        number = int(value)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={value!r}: use a whole number") from error
    if not low <= number <= high:
        raise ImproperlyConfigured(f"{name}={number}: use {low} to {high}")
    return number


def choice(name: str, default: str, allowed: set[str]) -> str:
    """Return one of the allowed words."""
    value = text(name, default)
    if value not in allowed:
        raise ImproperlyConfigured(f"{name}={value!r}: use one of {', '.join(sorted(allowed))}")
    return value


def country(name: str) -> str:
    """Return a country's two letters, or an empty text."""
    value = text(name).strip().upper()
    if value and not (len(value) == _COUNTRY_LETTERS and value.isascii() and value.isalpha()):
        raise ImproperlyConfigured(f"{name}={value!r}: use two letters such as DE")
    return value


def items(name: str, default: str = "") -> list[str]:
    """Return a comma-separated list without blanks."""
    return [item.strip() for item in text(name, default).split(",") if item.strip()]


def amounts(name: str) -> dict[str, int]:
    """Return whole numbers by country from a list such as `KR:4000,TH:2500`."""
    found: dict[str, int] = {}
    for item in items(name):
        country, colon, number = item.partition(":")
        if not colon or not (country.isascii() and country.isalpha() and len(country) == 2) or not number.isdigit():  # noqa: PLR2004  ISO 3166 has two letters
            raise ImproperlyConfigured(f"{name}: {item!r} is no amount of a country, such as KR:4000")
        found[country.upper()] = int(number)
    return found


def networks(name: str) -> list[str]:
    """Return a comma-separated list of IP addresses and networks such as `10.0.0.0/8`."""
    found = items(name)
    for item in found:
        try:
            ip_network(item, strict=False)
        except ValueError as error:
            raise ImproperlyConfigured(f"{name}: {item!r} is no IP address or network") from error
    return found


def iban(name: str) -> str:
    """Return an IBAN without blanks, or an empty text where the setting is not set; its check digits must be right."""
    value = "".join(text(name).split()).upper()
    digits = "".join(str(int(sign, 36)) for sign in value[4:] + value[:4]) if value.isalnum() else ""
    if value and (not digits or not value.isascii() or int(digits) % 97 != 1):
        raise ImproperlyConfigured(f"{name}: no IBAN (its check digits are wrong)")
    return value


def base64_bytes(name: str, *, length: int) -> str:
    """Return base64 of so many bytes, or an empty text where the setting is not set."""
    value = text(name)
    try:
        raw = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImproperlyConfigured(f"{name}: not base64") from error
    if value and len(raw) != length:
        raise ImproperlyConfigured(f"{name}: {length} bytes in base64 are needed, these are {len(raw)}")
    return value


def url(name: str, default: str = "", *, schemes: tuple[str, ...] = ("http", "https")) -> str:
    """Return an absolute URL without a trailing slash."""
    value = text(name, default).rstrip("/")
    parts = urlsplit(value)
    if value and (parts.scheme not in schemes or not parts.netloc):
        raise ImproperlyConfigured(f"{name}={value!r}: use an absolute URL ({', '.join(schemes)})")
    return value


def database(value: str) -> dict[str, object]:
    """Turn a `postgresql://` URL into Django's dictionary; each thread keeps a connection of its own for a minute."""
    parts = urlsplit(value)
    if parts.scheme not in {"postgres", "postgresql"}:
        raise ImproperlyConfigured(f"DATABASE_URL: {parts.scheme or 'no'} scheme; only postgresql:// is supported")
    query = dict(item.split("=", 1) for item in parts.query.split("&") if "=" in item)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": unquote(parts.path.lstrip("/")) or "postgres",
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(query.get("host", parts.hostname or "")),
        "PORT": str(parts.port or query.get("port", "")),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
    }
