"""Remembers, from the invitation page to the end of sign-up, which invitation a visitor came with."""

from django.http import HttpRequest
from django.urls import reverse

from portal.accounts.models import Invitation
from portal.accounts.selectors import invitations
from portal.core import clock

_SESSION_KEY = "invitation"


def remember(request: HttpRequest, token: str) -> None:
    """Keep the invitation's token in the session."""
    request.session[_SESSION_KEY] = token


def forget(request: HttpRequest) -> None:
    """Drop it, once it is used."""
    request.session.pop(_SESSION_KEY, None)


def invitation_in(request: HttpRequest) -> Invitation | None:
    """Return the visitor's invitation while it is open."""
    token = request.session.get(_SESSION_KEY)
    return invitations.invitation_of(token=str(token), now=clock.now()) if token else None


def url_in(request: HttpRequest) -> str | None:
    """Return the address of the visitor's invitation page."""
    token = request.session.get(_SESSION_KEY)
    return reverse("organization:invitation", args=[token]) if token else None
