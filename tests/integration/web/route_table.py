"""Reads the portal's URL table: every route with its name, its arguments and the audience it declares."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.urls import URLPattern, URLResolver, get_resolver

from portal.core import audience
from portal.core.audience import OPERATOR, PERSON, PUBLIC, Audience

# django-allauth's views cannot carry our mark; each of its routes is named here.
_SIGN_IN = {
    "account_change_password": PERSON,
    "account_confirm_email": PUBLIC,
    "account_confirm_login_code": PUBLIC,
    "account_confirm_reauthentication_code": PERSON,
    "account_email": PERSON,
    "account_email_verification_sent": PUBLIC,
    "account_inactive": PUBLIC,
    "account_login": PUBLIC,
    "account_logout": PUBLIC,
    "account_reauthenticate": PERSON,
    "account_request_reauthentication_code": PERSON,
    "account_reset_password": PUBLIC,
    "account_reset_password_done": PUBLIC,
    "account_reset_password_from_key": PUBLIC,
    "account_reset_password_from_key_done": PUBLIC,
    "account_set_password": PERSON,
    "account_signup": PUBLIC,
    "mfa_activate_totp": PERSON,
    "mfa_add_webauthn": PERSON,
    "mfa_authenticate": PUBLIC,
    "mfa_deactivate_totp": PERSON,
    "mfa_download_recovery_codes": PERSON,
    "mfa_edit_webauthn": PERSON,
    "mfa_generate_recovery_codes": PERSON,
    "mfa_index": PERSON,
    "mfa_list_webauthn": PERSON,
    "mfa_login_webauthn": PUBLIC,
    "mfa_reauthenticate": PERSON,
    "mfa_reauthenticate_webauthn": PERSON,
    "mfa_remove_webauthn": PERSON,
    "mfa_view_recovery_codes": PERSON,
}
# Django's admin site guards all of its routes alike.
_TABLES = "operator/tables/"


@dataclass(frozen=True, slots=True)
class Route:
    """One entry of the URL table. `audience` is None where nothing is declared."""

    name: str
    path: str
    arguments: frozenset[str]
    audience: Audience | None

    def __str__(self) -> str:
        return self.name or self.path


def all_routes() -> list[Route]:
    """Return every route, in the order of the table."""
    return list(_walk(get_resolver().url_patterns, "", "", frozenset()))


def _walk(
    patterns: list[URLPattern | URLResolver], path: str, namespace: str, arguments: frozenset[str]
) -> Iterator[Route]:
    for entry in patterns:
        here, held = path + str(entry.pattern), arguments | _arguments(entry)
        if isinstance(entry, URLResolver):
            inner = ":".join(filter(None, [namespace, entry.namespace]))
            yield from _walk(entry.url_patterns, here, inner, held)
        else:
            name = ":".join(filter(None, [namespace, entry.name])) if entry.name else ""
            yield Route(name=name, path=here, arguments=held, audience=_audience(entry, here, name))


def _arguments(entry: URLPattern | URLResolver) -> frozenset[str]:
    converters = getattr(entry.pattern, "converters", None) or {}
    groups = getattr(entry.pattern, "regex", None)
    return frozenset(converters) | frozenset(groups.groupindex if groups else ())


def _audience(entry: URLPattern, path: str, name: str) -> Audience | None:
    if path.startswith(_TABLES):
        return OPERATOR
    return audience.of(entry.callback) or _SIGN_IN.get(name)
