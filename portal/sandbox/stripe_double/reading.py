"""Reading events back for thirty days: v1 by seconds and type, v2 by moment and type."""

from typing import cast
from urllib.parse import urlencode

from stripe import params
from stripe.params.v2 import core

from portal.sandbox.stripe_double.api import Call, created_within, page, route
from portal.sandbox.stripe_double.events import iso
from portal.sandbox.stripe_double.faults import Body, invalid, missing

KEPT_S = 30 * 24 * 3600
_MOST_TYPES = 20


@route("GET", "/v1/events", params.EventListParams)
def list_events(call: Call) -> Body:
    """Answer with the calling account's snapshot events, newest first."""
    oldest = call.store.now() - KEPT_S
    found = created_within(call, call.store.all("event", account=call.account))
    wanted = _types(call)
    kept = [body for body in found if cast("int", body["created"]) >= oldest]
    return page(call, [body for body in kept if not wanted or body["type"] in wanted])


def _types(call: Call) -> set[str]:
    names = {str(name) for name in call.items("types")}
    if len(names) > _MOST_TYPES:
        raise invalid(f"Array too long: maximum {_MOST_TYPES} values", param="types")
    return names | ({call.text("type")} - {""})


@route("GET", "/v1/events/{id}", params.EventRetrieveParams)
def read_event(call: Call) -> Body:
    """Answer with one event of the calling account: a connected account's is not the platform's."""
    event = call.store.get("event", call.names[0], account=call.account)
    if cast("int", event["created"]) < call.store.now() - KEPT_S:
        raise missing("event", call.names[0])
    return event


@route("GET", "/v2/core/events", core.EventListParams)
def list_thin_events(call: Call) -> Body:
    """Answer with thin events, newest first, a page at a time."""
    oldest = iso(call.store.now() - KEPT_S)
    least = max(str(call.mapping("created").get("gte", "")), oldest)
    wanted = _types(call)
    found = call.store.all("v2.core.event")
    kept = [body for body in found if (not wanted or body["type"] in wanted) and _moment(body) >= least[:19]]
    start, limit = int(call.page_token or 0), call.number("limit", default=20)
    following = None
    if len(kept) > start + limit:
        following = f"{call.path}?{_same_list(call, limit)}&page={start + limit}"
    return {"data": kept[start : start + limit], "next_page_url": following, "previous_page_url": None}


def _same_list(call: Call, limit: int) -> str:
    pairs = [("limit", str(limit))]
    pairs += [(f"created[{name}]", str(value)) for name, value in call.mapping("created").items()]
    pairs += [(f"types[{place}]", str(name)) for place, name in enumerate(call.items("types"))]
    return urlencode(pairs)


def _moment(body: Body) -> str:
    return cast("str", body["created"])[:19]


@route("GET", "/v2/core/events/{id}", core.EventRetrieveParams)
def read_thin_event(call: Call) -> Body:
    """Answer with one thin event."""
    return call.store.get("v2.core.event", call.names[0])
