"""The checks of a provider's node: results, and a round on demand. Route `provider:node-checks`."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.rules import states
from portal.nodes.selectors import nodes as selectors
from portal.nodes.selectors.check_rows import node_checks
from portal.nodes.services import check_rounds
from portal.web.access import ProviderRequest, provider_page


@provider_page()
def checks(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Show what the checks found; a POST asks the node for a round."""
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    if request.method == "POST":
        try:
            check_rounds.ask_on_demand(node_id=row.public_id, actor=request.actor, now=clock.now())
        except DomainError as error:
            messages.warning(request, error.sentences)
        else:
            messages.success(request, "The node has been asked; it answers within 15 seconds.")
        return redirect("provider:node-checks", node_id=node_id)
    found = node_checks(node=row, now=clock.now())
    is_open = found.round is not None and found.round.is_open
    context = {"node": row, "checks": found, "can_ask": row.state in states.LIVE_STATES and not is_open}
    return render(request, "provider/node_checks.html", context)


urlpatterns = [path("nodes/<str:node_id>/checks/", checks, name="node-checks")]
