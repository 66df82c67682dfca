"""Early fraud warnings: a card network says that a charge was probably made with a stolen card."""

from stripe.params import radar

from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, invalid
from portal.sandbox.stripe_double.store import Store

KIND = "radar.early_fraud_warning"
KINDS = frozenset(
    {
        "card_never_received",
        "fraudulent_card_application",
        "made_with_counterfeit_card",
        "made_with_lost_card",
        "made_with_stolen_card",
        "misc",
        "unauthorized_use_of_card",
    }
)


@route("GET", "/v1/radar/early_fraud_warnings/{early_fraud_warning}", radar.EarlyFraudWarningRetrieveParams)
def read_warning(call: Call) -> Body:
    """Answer with a warning."""
    return call.store.get(KIND, call.names[0], param="early_fraud_warning")


@route("GET", "/v1/radar/early_fraud_warnings", radar.EarlyFraudWarningListParams)
def list_warnings(call: Call) -> Body:
    """Answer with warnings, newest first, of one charge or payment where asked."""
    found = created_within(call, call.store.all(KIND))
    return page(call, matching(call, found, "charge", "payment_intent"))


def warn(store: Store, charge: Body, *, kind: str) -> Body:
    """The network warns about a charge; one that was refunded in full or disputed needs no action. Raises Refusal."""
    if any(body["charge"] == charge["id"] for body in store.all(KIND)):
        raise invalid("This charge has been warned about", param="charge")
    warning: Body = {
        "id": store.new_id("issfr"),
        "object": KIND,
        "actionable": not (charge["refunded"] or charge["disputed"]),
        "charge": charge["id"],
        "created": store.now(),
        "fraud_type": kind,
        "livemode": charge["livemode"],
        "payment_intent": charge["payment_intent"],
    }
    store.put(KIND, warning)
    emit(store, f"{KIND}.created", warning)
    return warning


def calm(store: Store, charge: Body) -> None:
    """Nothing is left to do about warnings of a charge that was refunded in full or disputed."""
    for warning in store.all(KIND):
        if warning["charge"] == charge["id"] and warning["actionable"]:
            warning["actionable"] = False
            store.put(KIND, warning)
            emit(store, f"{KIND}.updated", warning)
