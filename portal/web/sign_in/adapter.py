"""How django-allauth fits this pool: who may sign up, where people land, how its mail leaves, whose address counts."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.core import context
from django.conf import settings
from django.contrib.sites.shortcuts import get_current_site
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal.accounts.models import User
from portal.billing.services import related
from portal.core import clock, ids
from portal.notifications import services as notifications
from portal.web.access import address_of
from portal.web.sign_in import invited


class PoolAccountAdapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """The account adapter of the pool."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        """Open the door as SIGNUP says; an invitation opens it unless sign-up is closed."""
        if settings.SIGNUP == "invite":
            return invited.invitation_in(request) is not None
        return bool(settings.SIGNUP == "open")

    def get_signup_redirect_url(self, request: HttpRequest) -> str:
        """Lead an invited person back to the invitation, all others home."""
        return invited.url_in(request) or reverse("public:home")

    def get_login_redirect_url(self, request: HttpRequest) -> str:
        """Lead an invited person back to the invitation, all others home."""
        return invited.url_in(request) or reverse("public:home")

    def post_login(self, request: HttpRequest, user: User, **given: Any) -> HttpResponse:
        """Note where the person signed in from, then go on."""
        related.note_sign_in(user=user, address=address_of(request), now=clock.now())
        answer: HttpResponse = super().post_login(request, user, **given)
        return answer

    def is_email_verified(self, request: HttpRequest, email: str) -> bool:
        """Count an address as proven when its owner came by the link that was mailed to it."""
        invitation = invited.invitation_in(request)
        return (invitation is not None and invitation.email == email.lower()) or super().is_email_verified(
            request, email
        )

    def format_email_subject(self, subject: str) -> str:
        """Leave subjects as they are; they name the pool themselves."""
        return str(subject)

    def send_mail(self, template_prefix: str, email: str, given: dict[str, Any]) -> None:
        """Render the message now and hand it to the notifications room."""
        message = self.render_mail(template_prefix, email, self._mail_context(email, given))
        notifications.send(
            key=f"sign-in:{ids.uuid7()}",
            to=email,
            template="ready",
            context={"subject": message.subject, "body": message.body},
            now=clock.now(),
        )

    def get_client_ip(self, request: HttpRequest) -> str:
        """Return the address that rate limits count. Raises PermissionDenied where there is none."""
        address = address_of(request)
        if address is None:
            raise PermissionDenied("no client address")
        return address

    def _mail_context(self, email: str, given: dict[str, Any]) -> dict[str, Any]:
        request = context.request
        return {"request": request, "email": email, "current_site": get_current_site(request), **given}
