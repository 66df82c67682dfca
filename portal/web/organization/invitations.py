"""Where an invitation's link leads: look at it, sign up or in, accept."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.selectors import invitations
from portal.accounts.services.invitations import accept_invitation
from portal.core import clock
from portal.web.access import SESSION_ORGANIZATION, PersonRequest, person_page, public_page
from portal.web.sign_in import invited


@public_page
def show(request: HttpRequest, token: str) -> HttpResponse:
    """Show who invites to what. An invitation that is over answers 404."""
    invitation = invitations.invitation_of(token=token, now=clock.now())
    if invitation is None:
        invited.forget(request)
        return render(request, "organization/invitation_over.html", status=404)
    invited.remember(request, token)
    return render(request, "organization/invitation.html", {"invitation": invitation, "token": token})


@person_page
@require_POST
def accept(request: PersonRequest, token: str) -> HttpResponse:
    """Join, and act for the inviting organization from then on."""
    membership = accept_invitation(token=token, user=request.user, actor=request.actor, now=clock.now())
    invited.forget(request)
    if membership is None:
        return redirect("organization:create")
    request.session[SESSION_ORGANIZATION] = membership.organization.public_id
    messages.success(request, f"You belong to {membership.organization.name} now.")
    return redirect("public:home")


urlpatterns = [
    path("invitations/<str:token>/", show, name="invitation"),
    path("invitations/<str:token>/accept/", accept, name="accept-invitation"),
]
