"""Private nodes the organization is named for: what they cost, accept or leave. Main route `customer:private-nodes`."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Role
from portal.billing.models import PriceVersion
from portal.billing.rules.private_prices import unaccepted
from portal.billing.selectors import prices as price_selectors
from portal.core import clock
from portal.nodes.models import Node, NodeGuest
from portal.nodes.selectors import guests as selectors
from portal.nodes.services import guests
from portal.web.access import OrganizationRequest, page


@dataclass(frozen=True, slots=True)
class PriceLine:
    """One price of one model on the node."""

    model: str
    scope: str
    version: int
    starts_at: datetime
    prompt_nano: int
    cached_nano: int
    completion_nano: int
    request_nano: int
    is_unaccepted: bool


@dataclass(frozen=True, slots=True)
class PrivateNodeRow:
    """A node the organization is named for. `lines` has what holds now, `all_lines` announced prices too."""

    node: Node
    provider: str
    accepted_at: datetime | None
    lines: list[PriceLine]
    all_lines: list[PriceLine]

    @property
    def is_dearer(self) -> bool:
        """Whether a price holds, or will, that has not been accepted."""
        return any(line.is_unaccepted for line in self.all_lines)


@page(side="customer")
def private_nodes(request: OrganizationRequest) -> HttpResponse:
    """List the private nodes the organization is named for."""
    found = list(selectors.private_nodes_of(organization=request.organization))
    rows = _rows(found, clock.now())
    return render(request, "customer/private_nodes.html", {"rows": rows, "organization": request.organization})


@page(side="customer", post_role=Role.ADMIN)
def private_node(request: OrganizationRequest, node_id: str) -> HttpResponse:
    """Show what the node costs; a POST accepts that, or leaves."""
    guest = selectors.private_node_of(organization=request.organization, node_id=node_id)
    now = clock.now()
    if request.method == "POST":
        if request.POST.get("decision") == "accept":
            guests.accept(node_id=node_id, organization=request.organization, actor=request.actor, now=now)
            messages.success(request, f"{guest.node.name} serves your requests before the public pool.")
        else:
            organization_id = request.organization.public_id
            guests.remove_guest(node_id=node_id, organization_id=organization_id, actor=request.actor, now=now)
            messages.success(request, f"{guest.node.name} no longer serves you.")
        return redirect("customer:private-nodes")
    (row,) = _rows([guest], now)
    return render(request, "customer/private_node.html", {"row": row})


def _rows(found: list[NodeGuest], now: datetime) -> list[PrivateNodeRow]:
    providers = {guest.node.provider_id for guest in found}
    own = {provider: price_selectors.private_prices(provider_id=provider) for provider in providers}
    public = price_selectors.prices_at(at=now)
    return [_row(guest, own[guest.node.provider_id], public, now) for guest in found]


def _row(
    guest: NodeGuest, own: dict[int, list[PriceVersion]], public: dict[int, PriceVersion], now: datetime
) -> PrivateNodeRow:
    lines: list[PriceLine] = []
    for deployment in guest.node.deployments.all():
        model = deployment.model
        versions = own.get(model.pk, [])
        refused = frozenset() if guest.accepted_at is None else unaccepted(versions, accepted_at=guest.accepted_at)
        past = [version for version in versions if version.effective_from <= now]
        if not past and model.pk in public:
            lines.append(_line(model.public_id, "public", public[model.pk], is_unaccepted=False))
        shown = past[-1:] + [version for version in versions if version.effective_from > now]
        lines += [_line(model.public_id, "private", row, is_unaccepted=row.pk in refused) for row in shown]
    return PrivateNodeRow(
        node=guest.node,
        provider=guest.node.provider.organization.name,
        accepted_at=guest.accepted_at,
        lines=[line for line in lines if line.starts_at <= now],
        all_lines=lines,
    )


def _line(model: str, scope: str, version: PriceVersion, *, is_unaccepted: bool) -> PriceLine:
    return PriceLine(
        model=model,
        scope=scope,
        version=version.version,
        starts_at=version.effective_from,
        prompt_nano=version.prompt_nano_per_mtok,
        cached_nano=version.cached_nano_per_mtok,
        completion_nano=version.completion_nano_per_mtok,
        request_nano=version.request_nano,
        is_unaccepted=is_unaccepted,
    )


urlpatterns = [
    path("private-nodes/", private_nodes, name="private-nodes"),
    path("private-nodes/<str:node_id>/", private_node, name="private-node"),
]
