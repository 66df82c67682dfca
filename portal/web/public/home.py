"""Public pages: the front door, which leads people who are signed in to their own overview."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Organization
from portal.accounts.selectors import members
from portal.web.access import SESSION_ORGANIZATION, public_page


def home_route(organization: Organization) -> str:
    """Return the route of the organization's own overview."""
    return "customer:overview" if organization.is_customer else "provider:overview"


@public_page
def home(request: HttpRequest) -> HttpResponse:
    """Show what this pool is, or go to the visitor's overview."""
    if not request.user.is_authenticated:
        return render(request, "public/home.html", {"signup": settings.SIGNUP, "gateway_url": settings.GATEWAY_URL})
    memberships = members.memberships_of(user=request.user)
    if not memberships:
        return redirect("operators:overview" if request.user.is_operator else "organization:create")
    chosen = str(request.session.get(SESSION_ORGANIZATION, ""))
    by_id = {row.organization.public_id: row.organization for row in memberships}
    return redirect(home_route(by_id.get(chosen, memberships[0].organization)))


urlpatterns = [path("", home, name="home")]
