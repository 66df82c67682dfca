"""Turns EMAIL_URL into Django's mail settings."""

from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_BACKENDS = {
    "console": "django.core.mail.backends.console.EmailBackend",
    "memory": "django.core.mail.backends.locmem.EmailBackend",
    "file": "django.core.mail.backends.filebased.EmailBackend",
    "smtp": "django.core.mail.backends.smtp.EmailBackend",
    "smtps": "django.core.mail.backends.smtp.EmailBackend",
}
_PORTS = {"smtp": 587, "smtps": 465}
_TIMEOUT_S = 10


def settings(value: str) -> dict[str, Any]:
    """Return the EMAIL_* settings for `console:`, `memory:`, `file:///folder`, `smtp://` (STARTTLS) or `smtps://`."""
    parts = urlsplit(value)
    if parts.scheme not in _BACKENDS:
        raise ImproperlyConfigured(f"EMAIL_URL: scheme {parts.scheme!r}; use one of {', '.join(sorted(_BACKENDS))}")
    chosen: dict[str, Any] = {"EMAIL_BACKEND": _BACKENDS[parts.scheme], "EMAIL_TIMEOUT": _TIMEOUT_S}
    if parts.scheme == "file":
        if not parts.path:
            raise ImproperlyConfigured("EMAIL_URL: file: needs a folder, e.g. file:///var/spool/poolhouse")
        return chosen | {"EMAIL_FILE_PATH": unquote(parts.path)}
    if parts.scheme in _PORTS:
        chosen |= _smtp(parts.scheme, value)
    return chosen


def _smtp(scheme: str, value: str) -> dict[str, Any]:
    parts = urlsplit(value)
    try:
        port = parts.port
    except ValueError as error:
        raise ImproperlyConfigured(f"EMAIL_URL: {error}") from error
    if not parts.hostname:
        raise ImproperlyConfigured("EMAIL_URL: smtp needs a host, e.g. smtp://user:password@mail.example:587")
    is_plain = parts.query == "tls=no"
    return {
        "EMAIL_HOST": parts.hostname,
        "EMAIL_PORT": port or _PORTS[scheme],
        "EMAIL_HOST_USER": unquote(parts.username or ""),
        "EMAIL_HOST_PASSWORD": unquote(parts.password or ""),
        "EMAIL_USE_SSL": scheme == "smtps",
        "EMAIL_USE_TLS": scheme == "smtp" and not is_plain,
    }
