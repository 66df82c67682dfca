"""Operator pages: the nodes of the whole fleet. The main page's route is named `operators:nodes`."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse

from portal.core import clock
from portal.core.amount_field import AmountField
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.core.money import decimal_text
from portal.nodes.models import Node, NodeOrigin, NodeState
from portal.nodes.rules.states import NODE_MOVES
from portal.nodes.selectors import guests as guest_selectors
from portal.nodes.selectors import house_costs
from portal.nodes.selectors import nodes as selectors
from portal.nodes.selectors.check_rows import summary as check_summary
from portal.nodes.selectors.hardware import hardware_of
from portal.nodes.selectors.placement import verdicts_of
from portal.nodes.selectors.releases import updates_of
from portal.nodes.selectors.rows import deployment_row, event_row, node_row
from portal.nodes.selectors.work import class_note, explain_work
from portal.nodes.services import guests, lifecycle
from portal.operators.access import OperatorRequest, operator_page
from portal.operators.providers import ReasonForm
from portal.providers.models import ProviderKind
from portal.trust.selectors.audits import audits_of
from portal.trust.selectors.evidence import evidence_of


class HouseForm(forms.Form):
    """Whose machine a house node is and what an hour of it costs; the margin needs it."""

    origin = forms.ChoiceField(choices=[(NodeOrigin.OWNED, "Owned"), (NodeOrigin.RENTED, "Rented")])
    cost_per_hour = AmountField(label="Cost per hour", help_text="An amount such as 1.20.")
    effective_from = MomentField(help_text="Leave empty for now. A past moment corrects the margin from then on.")


class GuestForm(forms.Form):
    """Whom a private node is shown to."""

    organization = forms.CharField(max_length=40, help_text="Its id; it begins with org_.")


@operator_page
def nodes(request: OperatorRequest) -> HttpResponse:
    """List the fleet."""
    state = request.GET.get("state", "")
    context = {
        "rows": [node_row(node) for node in selectors.fleet(state=state)],
        "state": state,
        "states": sorted(selectors.states_count().items()),
    }
    return render(request, "operators/nodes.html", context)


@operator_page
def node(request: OperatorRequest, node_id: str) -> HttpResponse:
    """Show one node; a POST sets a house node's origin and cost."""
    row = selectors.fleet_node(node_id)
    cost = decimal_text(house_costs.cost_at(node=row, at=clock.now()))
    form = HouseForm(request.POST or None, initial={"origin": row.origin, "cost_per_hour": cost})
    if request.method == "POST" and form.is_valid():
        try:
            _set_house_terms(request, row, form)
        except DomainError as error:
            form.add_error(None, error.sentences)
        else:
            messages.success(request, "Origin and cost are set.")
            return redirect("operators:node", node_id=node_id)
    return render(request, "operators/node.html", {"form": form, **_context(row)})


@operator_page
def private(request: OperatorRequest, node_id: str) -> HttpResponse:
    """Show who may use the node; a POST makes it private or public again, or names a guest."""
    row = selectors.fleet_node(node_id)
    is_naming = request.method == "POST" and "visibility" not in request.POST
    form = GuestForm(request.POST if is_naming else None)
    if request.method == "POST" and not is_naming:
        is_private = request.POST["visibility"] == "private"
        guests.set_private(node_id=node_id, is_private=is_private, actor=request.actor, now=clock.now())
        return redirect("operators:node-private", node_id=node_id)
    if is_naming and form.is_valid():
        named = form.cleaned_data["organization"]
        try:
            guests.name_guest(node_id=node_id, organization_id=named, actor=request.actor, now=clock.now())
        except DomainError as error:
            form.add_error("organization", error.sentences)
        else:
            messages.success(request, f"{named} sees the node, and is served by it once it has accepted the price.")
            return redirect("operators:node-private", node_id=node_id)
    context = {"node": row, "form": form, "guests": guest_selectors.guests_of(node=row), "is_operator_page": True}
    return render(request, "operators/node_private.html", context)


@operator_page
def remove_guest(request: OperatorRequest, node_id: str, organization: str) -> HttpResponse:
    """Hide the node from an organization again, after asking."""
    row = selectors.fleet_node(node_id)
    if request.method == "POST":
        guests.remove_guest(node_id=node_id, organization_id=organization, actor=request.actor, now=clock.now())
        return redirect("operators:node-private", node_id=node_id)
    cancel = reverse("operators:node-private", args=[node_id])
    return render(request, "nodes/guest_remove.html", {"node": row, "organization": organization, "cancel": cancel})


@operator_page
def suspend(request: OperatorRequest, node_id: str) -> HttpResponse:
    """Suspend a node, with the reason its provider reads."""
    row = selectors.fleet_node(node_id)
    form = ReasonForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        lifecycle.suspend(node_id=node_id, reason=form.cleaned_data["reason"], actor=request.actor, now=clock.now())
        return redirect("operators:node", node_id=node_id)
    return render(request, "operators/node_suspend.html", {"node": row, "form": form})


@operator_page
def lift(request: OperatorRequest, node_id: str) -> HttpResponse:
    """Let a suspended node go on, after asking."""
    row = selectors.fleet_node(node_id)
    if request.method == "POST":
        lifecycle.lift_suspension(node_id=node_id, actor=request.actor, now=clock.now())
        return redirect("operators:node", node_id=node_id)
    return render(request, "operators/node_lift.html", {"node": row})


def _set_house_terms(request: OperatorRequest, row: Node, form: HouseForm) -> None:
    lifecycle.set_house_terms(
        node_id=row.public_id,
        origin=NodeOrigin(form.cleaned_data["origin"]),
        cost_nano_per_hour=form.cleaned_data["cost_per_hour"],
        effective_from=form.cleaned_data["effective_from"],
        actor=request.actor,
        now=clock.now(),
    )


def _context(row: Node) -> dict[str, object]:
    return {
        "node": row,
        "is_house": row.provider.kind == ProviderKind.HOUSE,
        "costs": house_costs.cost_history(node=row),
        "why": explain_work(node=row),
        "class_note": class_note(node=row),
        "updates": updates_of(node=row),
        "checks": check_summary(node=row),
        "checks_url": reverse("operators:node-checks", args=[row.public_id]),
        "hardware": hardware_of(node=row, shows_twins=True),
        "deployments": [deployment_row(item) for item in selectors.deployments_of(node=row)],
        "events": [event_row(event) for event in selectors.events_of(node=row)],
        "audits": audits_of(node=row, now=clock.now()),
        "evidence": evidence_of(node=row, with_facts=True),
        "shows_facts": True,
        "placement": verdicts_of(node=row),
        "can_suspend": NodeState.SUSPENDED in NODE_MOVES[row.state],
        "can_lift": row.state == NodeState.SUSPENDED,
    }


urlpatterns = [
    path("nodes/", nodes, name="nodes"),
    path("nodes/<str:node_id>/", node, name="node"),
    path("nodes/<str:node_id>/private/", private, name="node-private"),
    path("nodes/<str:node_id>/guests/<str:organization>/remove/", remove_guest, name="guest-remove"),
    path("nodes/<str:node_id>/suspend/", suspend, name="node-suspend"),
    path("nodes/<str:node_id>/lift/", lift, name="node-lift"),
]
