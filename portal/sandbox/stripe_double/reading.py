"""Reading events back: v1 by seconds and type, v2 by moment and type."""

from typing import cast

from stripe import params
from stripe.params.v2 import core

from portal.sandbox.stripe_double.api import Call, created_within, page, route
from portal.sandbox.stripe_double.faults import Body, missing


@route("GET", "/v1/events", params.EventListParams)
def list_events(call: Call) -> Body:
    """Answer with the platform's snapshot events, newest first."""
    found = [body for body in created_within(call, call.store.all("event")) if "account" not in body]
    wanted = {str(name) for name in call.items("types")} | ({call.text("type")} - {""})
    return page(call, [body for body in found if not wanted or body["type"] in wanted])


@route("GET", "/v1/events/{id}", params.EventRetrieveParams)
def read_event(call: Call) -> Body:
    """Answer with one event of the calling account: a connected account's is not the platform's."""
    event = call.store.get("event", call.names[0])
    if event.get("account", "") != call.account:
        raise missing("event", call.names[0])
    return event


@route("GET", "/v2/core/events", core.EventListParams)
def list_thin_events(call: Call) -> Body:
    """Answer with thin events, newest first."""
    found = call.store.all("v2.core.event")
    wanted = {str(name) for name in call.items("types")}
    least = str(call.mapping("created").get("gte", ""))
    kept = [body for body in found if (not wanted or body["type"] in wanted) and _moment(body) >= least[:19]]
    return {"data": kept[: call.number("limit", default=20)], "next_page_url": None, "previous_page_url": None}


def _moment(body: Body) -> str:
    return cast("str", body["created"])[:19]


@route("GET", "/v2/core/events/{id}", core.EventRetrieveParams)
def read_thin_event(call: Call) -> Body:
    """Answer with one thin event."""
    return call.store.get("v2.core.event", call.names[0])
