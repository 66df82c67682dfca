"""Team pages: members, roles and invitations. Main route `organization:team`."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.accounts.rules import roles
from portal.accounts.selectors import invitations, members
from portal.accounts.services import invitations as invitation_services
from portal.accounts.services import members as member_services
from portal.core import clock
from portal.core.errors import DomainError
from portal.web.access import SESSION_ORGANIZATION, OrganizationRequest, page

ROLE_MEANING = {
    Role.OWNER: "everything, owners included",
    Role.ADMIN: "members, money and settings",
    Role.MEMBER: "keys and nodes",
    Role.READ_ONLY: "look, change nothing",
}


class InviteForm(forms.Form):
    """Whom to invite as what."""

    email = forms.EmailField(label="E-mail address", widget=forms.EmailInput(attrs={"autocomplete": "off"}))
    role = forms.ChoiceField(
        choices=[(role.value, f"{role.label}: {meaning}") for role, meaning in ROLE_MEANING.items()],
        initial=Role.MEMBER.value,
    )


@page(side="any", post_role=Role.ADMIN)
def team(request: OrganizationRequest) -> HttpResponse:
    """List members and open invitations; an admin invites."""
    form = InviteForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            invitation_services.invite_member(
                membership=request.membership,
                email=form.cleaned_data["email"],
                role=form.cleaned_data["role"],
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, f"An invitation is on its way to {form.cleaned_data['email']}.")
            return redirect("organization:team")
    return render(request, "organization/team.html", _context(request, form))


@page(side="any", post_role=Role.ADMIN)
@require_POST
def change_role(request: OrganizationRequest, user: str) -> HttpResponse:
    """Give a member another role."""
    row = member_services.change_role(
        manager=request.membership,
        user_public_id=user,
        role=request.POST.get("role", ""),
        actor=request.actor,
        now=clock.now(),
    )
    messages.success(request, f"{row.user.email} is now {row.get_role_display().lower()}.")
    return redirect("organization:team")


@page(side="any", role=Role.ADMIN)
def remove(request: OrganizationRequest, user: str) -> HttpResponse:
    """Ask, then end another's membership."""
    member = members.member_of(organization=request.organization, user_public_id=user)
    if request.method == "POST":
        member_services.remove_member(
            manager=request.membership, user_public_id=user, actor=request.actor, now=clock.now()
        )
        messages.success(request, "The member is removed.")
        return redirect("organization:team")
    return render(request, "organization/remove_member.html", {"member": member})


@page(side="any", post_role=Role.READ_ONLY)
def leave(request: OrganizationRequest) -> HttpResponse:
    """Ask, then end one's own membership."""
    if request.method == "POST":
        member_services.leave(membership=request.membership, actor=request.actor, now=clock.now())
        request.session.pop(SESSION_ORGANIZATION, None)
        return redirect("public:home")
    return render(request, "organization/leave.html")


@page(side="any", post_role=Role.ADMIN)
@require_POST
def revoke_invitation(request: OrganizationRequest, invitation: int) -> HttpResponse:
    """Take an invitation back."""
    invitation_services.revoke_invitation(
        organization=request.organization, invitation_id=invitation, actor=request.actor, now=clock.now()
    )
    messages.success(request, "The invitation is taken back.")
    return redirect("organization:team")


def _context(request: OrganizationRequest, form: InviteForm) -> dict[str, object]:
    held = request.membership.role
    rows = [
        {
            "member": row,
            "is_self": row.user_id == request.user.pk,
            "may_change": roles.may_manage(manager=held, current=row.role, wanted=Role.READ_ONLY),
        }
        for row in members.members_of(organization=request.organization)
    ]
    choices = [role for role in Role if roles.may_manage(manager=held, current=Role.READ_ONLY, wanted=role)]
    return {
        "form": form,
        "rows": rows,
        "choices": choices,
        "invitations": invitations.open_invitations(organization=request.organization, now=clock.now()),
        "may_manage": roles.includes(held, Role.ADMIN),
        "meanings": [(role.label, meaning) for role, meaning in ROLE_MEANING.items()],
    }


urlpatterns = [
    path("team/", team, name="team"),
    path("team/leave/", leave, name="leave"),
    path("team/<str:user>/role/", change_role, name="change-role"),
    path("team/<str:user>/remove/", remove, name="remove-member"),
    path("team/invitations/<int:invitation>/revoke/", revoke_invitation, name="revoke-invitation"),
]
