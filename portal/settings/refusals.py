"""What production will not start without; each refusal names the setting, what is wrong and what to put there."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

_STRIPE = "https://api.stripe.com"
_LIVE = ("sk_live_", "rk_live_")
_SECRET_KEY_LENGTH = 50
_SEED_BYTES = 32
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}

_ALWAYS = {
    "SECRET_KEY": "it signs sessions; make one with `python -c 'import secrets; print(secrets.token_urlsafe(50))'`",
    "DATABASE_URL": "postgresql://user:password@host:5432/name",
    "REDIS_URL": "redis://host:6379/0",
    "PUBLIC_URL": "where people and agents reach the portal, e.g. https://pool.example",
    "GATEWAY_URL": "where customers reach /v1, e.g. https://api.pool.example",
    "RECEIPT_SIGNING_KEY": "base64 of 32 random bytes; make it with `openssl rand -base64 32`",
}
_PORTAL = {
    "ALLOWED_HOSTS": "the host names of PUBLIC_URL, separated by commas",
    "EMAIL_URL": "smtp://user:password@host:587 (sign-in needs mail; a console prints secrets to the log)",
}
_WEBHOOK_SECRETS = ("STRIPE_WEBHOOK_SECRET", "STRIPE_CONNECT_WEBHOOK_SECRET", "STRIPE_EVENTS_SECRET")


def require_all(given: Mapping[str, str], *, for_portal: bool) -> None:
    """Stop the start where a setting that production needs is missing. `given` is the environment's own text."""
    wanted = _ALWAYS | (_PORTAL if for_portal else {})
    missing = [f"{name} ({why})" for name, why in wanted.items() if not given.get(name)]
    if missing:
        raise ImproperlyConfigured("not set: " + "; ".join(missing))


def require_sound(given: Mapping[str, str], *, for_portal: bool) -> None:
    """Stop the start where a setting is there but must not be used in production."""
    if len(given["SECRET_KEY"]) < _SECRET_KEY_LENGTH:
        raise ImproperlyConfigured(f"SECRET_KEY is shorter than {_SECRET_KEY_LENGTH} characters: make a new one")
    for name in ("PUBLIC_URL", "GATEWAY_URL"):
        parts = urlsplit(given[name])
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise ImproperlyConfigured(f"{name}={given[name]!r}: use https outside this machine")
    _require_seed(given["RECEIPT_SIGNING_KEY"])
    if for_portal:
        _require_portal(given)


def _require_seed(text: str) -> None:
    try:
        seed = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImproperlyConfigured(f"RECEIPT_SIGNING_KEY is not base64: {error}") from error
    if len(seed) != _SEED_BYTES:
        raise ImproperlyConfigured(f"RECEIPT_SIGNING_KEY holds {len(seed)} bytes; it must hold {_SEED_BYTES}")


def _require_portal(given: Mapping[str, str]) -> None:
    if "*" in [host.strip() for host in given["ALLOWED_HOSTS"].split(",")]:
        raise ImproperlyConfigured("ALLOWED_HOSTS=*: name the hosts of PUBLIC_URL")
    if given["EMAIL_URL"].startswith(("console:", "memory:")):
        raise ImproperlyConfigured("EMAIL_URL: console and memory lose mail; use smtp:// or smtps://")
    key = given.get("STRIPE_API_KEY", "")
    if not key:
        return
    missing = [name for name in _WEBHOOK_SECRETS if not given.get(name)]
    if missing:
        raise ImproperlyConfigured(f"STRIPE_API_KEY is set but {', '.join(missing)} is not: webhooks would be refused")
    base = given.get("STRIPE_API_BASE") or _STRIPE
    if key.startswith(_LIVE) and base.rstrip("/") != _STRIPE:
        raise ImproperlyConfigured(f"STRIPE_API_BASE={base!r} with a live key: the key would go to a stranger")


def require_no_sandbox(installed_apps: list[str]) -> None:
    """Stop the start where the demo's world is installed."""
    sandboxed = [app for app in installed_apps if app.startswith("portal.sandbox")]
    if sandboxed:
        raise ImproperlyConfigured(f"INSTALLED_APPS holds {sandboxed[0]}: the sandbox never runs in production")


def names() -> list[str]:
    """Return the settings that the refusals look at."""
    return [*_ALWAYS, *_PORTAL, "STRIPE_API_KEY", "STRIPE_API_BASE", *_WEBHOOK_SECRETS]


def check(settings: Mapping[str, Any], given: Mapping[str, str], *, for_portal: bool) -> None:
    """Refuse a production start that is incomplete or unsound; `settings` is the module's namespace."""
    require_all(given, for_portal=for_portal)
    require_sound(given, for_portal=for_portal)
    require_no_sandbox(list(settings["INSTALLED_APPS"]))
