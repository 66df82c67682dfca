"""Who chooses on a provider's node: its people, or the pool. Route `provider:node-placement`."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.core import clock
from portal.nodes.models import PlacementMode
from portal.nodes.selectors import nodes as selectors
from portal.nodes.selectors.placement import verdicts_of
from portal.nodes.services import placement
from portal.web.access import ProviderRequest, provider_page


@provider_page()
def choose(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Let the pool choose on the node, or choose again, after asking."""
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    found = verdicts_of(node=row)
    if request.method == "POST":
        mode = PlacementMode.CHOSEN if found.is_automatic else PlacementMode.AUTOMATIC
        placement.set_mode(node_id=row.public_id, mode=mode, actor=request.actor, now=clock.now())
        messages.success(request, f"On {row.name} {mode.label[0].lower()}{mode.label[1:]}.")
        return redirect("provider:node", node_id=node_id)
    return render(request, "provider/node_placement.html", {"node": row, "placement": found})


urlpatterns = [path("nodes/<str:node_id>/placement/", choose, name="node-placement")]
