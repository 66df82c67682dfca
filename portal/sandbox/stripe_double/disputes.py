"""Disputes: the money leaves at once with a fee, and comes back only when the dispute is won."""

from typing import cast

from stripe import params

from portal.sandbox.stripe_double import warnings
from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.balances import Line, book
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body, invalid
from portal.sandbox.stripe_double.store import Store

ANSWER_WITHIN_S = 9 * 24 * 3600
DISPUTE_FEE = 1500
REASONS = frozenset(
    {"duplicate", "fraudulent", "general", "inquiry", "product_not_received", "subscription_canceled", "unrecognized"}
)
_TEXTS = (
    "access_activity_log billing_address cancellation_policy cancellation_policy_disclosure cancellation_rebuttal"
    " customer_communication customer_email_address customer_name customer_purchase_ip customer_signature"
    " duplicate_charge_documentation duplicate_charge_explanation duplicate_charge_id product_description receipt"
    " refund_policy refund_policy_disclosure refund_refusal_explanation service_date service_documentation"
    " shipping_address shipping_carrier shipping_date shipping_documentation shipping_tracking_number"
    " uncategorized_file uncategorized_text"
)
_LONGEST_TEXT = 20_000
_LONGEST_ALL = 150_000
_ANSWERABLE = frozenset({"needs_response", "warning_needs_response"})
_VERDICTS = {"winning_evidence": True, "losing_evidence": False}


def open_dispute(store: Store, charge: Body, *, reason: str, is_withdrawn: bool = True) -> Body:
    """The card's owner disputes what is left of a charge; an inquiry takes no money. Raises Refusal."""
    amount = cast("int", charge["amount"]) - cast("int", charge["amount_refunded"])
    if charge["status"] != "succeeded" or charge["disputed"] or amount == 0:
        raise invalid("This charge cannot be disputed", param="charge")
    is_inquiry = reason == "inquiry"
    dispute: Body = {
        "id": store.new_id("du"),
        "object": "dispute",
        "amount": amount,
        "balance_transactions": [],
        "charge": charge["id"],
        "created": store.now(),
        "currency": charge["currency"],
        "enhanced_eligibility_types": [],
        "evidence": {**dict.fromkeys(_TEXTS.split()), "enhanced_evidence": {}},
        "evidence_details": {
            "due_by": store.now() + ANSWER_WITHIN_S,
            "enhanced_eligibility": {},
            "has_evidence": False,
            "past_due": False,
            "submission_count": 0,
        },
        "is_charge_refundable": is_inquiry,
        "livemode": charge["livemode"],
        "metadata": {},
        "payment_intent": charge["payment_intent"],
        "reason": "general" if is_inquiry else reason,
        "status": "warning_needs_response" if is_inquiry else "needs_response",
    }
    store.put("dispute", dispute)
    if not is_inquiry:
        charge["disputed"] = True
        store.put("charge", charge)
        warnings.calm(store, charge)
    emit(store, "charge.dispute.created", dispute)
    if is_withdrawn and not is_inquiry:
        withdraw(store, dispute)
    return dispute


def withdraw(store: Store, dispute: Body) -> Body:
    """The disputed money and the fee leave the platform's balance. Raises Refusal."""
    if dispute["balance_transactions"]:
        raise invalid("The money of this dispute has left already", param="dispute")
    charge = store.get("charge", str(dispute["charge"]))
    if str(dispute["status"]).startswith("warning_"):
        dispute |= {"status": "needs_response", "is_charge_refundable": False}
        charge["disputed"] = True
        store.put("charge", charge)
    fee = int(store.meta("dispute_fee", str(DISPUTE_FEE)))
    _move(store, dispute, -cast("int", dispute["amount"]), fee)
    store.put("dispute", dispute)
    emit(store, "charge.dispute.funds_withdrawn", dispute)
    return dispute


def _move(store: Store, dispute: Body, amount: int, fee: int) -> None:
    line = Line(type="adjustment", amount=amount, currency=str(dispute["currency"]), source=str(dispute["id"]), fee=fee)
    lines = cast("list[Body]", dispute["balance_transactions"])
    dispute["balance_transactions"] = [*lines, book(store, line)]


def close(store: Store, dispute: Body, *, is_won: bool) -> Body:
    """The bank has decided; a won dispute gives the money back, the fee stays. Raises Refusal."""
    if dispute["status"] in {"won", "lost", "warning_closed"}:
        raise invalid(f"This dispute has ended: {dispute['status']}", param="dispute")
    if str(dispute["status"]).startswith("warning_"):
        dispute["status"] = "warning_closed"
    else:
        dispute["status"] = "won" if is_won else "lost"
    store.put("dispute", dispute)
    emit(store, "charge.dispute.closed", dispute)
    if dispute["status"] == "won" and dispute["balance_transactions"]:
        _move(store, dispute, cast("int", dispute["amount"]), 0)
        store.put("dispute", dispute)
        emit(store, "charge.dispute.funds_reinstated", dispute)
    return dispute


@route("POST", "/v1/disputes/{dispute}", params.DisputeUpdateParams)
def update_dispute(call: Call) -> Body:
    """Keep evidence, hand it in where asked; the text `winning_evidence` or `losing_evidence` decides at once."""
    dispute = call.store.get("dispute", call.names[0], param="dispute")
    if dispute["status"] not in _ANSWERABLE:
        raise invalid(f"This dispute cannot be answered: {dispute['status']}", param="dispute")
    given = call.mapping("evidence")
    _check_lengths(given)
    evidence = cast("Body", dispute["evidence"]) | given
    dispute["evidence"] = evidence
    cast("Body", dispute["evidence_details"])["has_evidence"] = any(evidence[name] for name in _TEXTS.split())
    if call.params.get("submit") is True:
        _submit(call.store, dispute)
    call.store.put("dispute", dispute)
    emit(call.store, "charge.dispute.updated", dispute, request=call.request_id)
    verdict = _VERDICTS.get(str(evidence["uncategorized_text"]))
    return close(call.store, dispute, is_won=verdict) if verdict is not None else dispute


def _check_lengths(given: Body) -> None:
    lengths = {name: len(str(value)) for name, value in given.items()}
    for name, length in lengths.items():
        if length > _LONGEST_TEXT:
            raise invalid(f"Evidence fields hold {_LONGEST_TEXT} characters at most", param=f"evidence[{name}]")
    if sum(lengths.values()) > _LONGEST_ALL:
        raise invalid(f"Evidence holds {_LONGEST_ALL} characters at most in all", param="evidence")


def _submit(store: Store, dispute: Body) -> None:
    details = cast("Body", dispute["evidence_details"])
    details["submission_count"] = cast("int", details["submission_count"]) + 1
    is_inquiry = str(dispute["status"]).startswith("warning_")
    dispute["status"] = "warning_under_review" if is_inquiry else "under_review"


@route("POST", "/v1/disputes/{dispute}/close", params.DisputeCloseParams)
def close_dispute(call: Call) -> Body:
    """Accept the dispute as lost."""
    return close(call.store, call.store.get("dispute", call.names[0], param="dispute"), is_won=False)


@route("GET", "/v1/disputes/{dispute}", params.DisputeRetrieveParams)
def read_dispute(call: Call) -> Body:
    """Answer with a dispute."""
    return call.store.get("dispute", call.names[0], param="dispute")


@route("GET", "/v1/disputes", params.DisputeListParams)
def list_disputes(call: Call) -> Body:
    """Answer with disputes, newest first, of one charge or payment where asked."""
    found = created_within(call, call.store.all("dispute"))
    return page(call, matching(call, found, "charge", "payment_intent"))


def tick(store: Store) -> None:
    """Let time pass: a dispute that nobody answered in time is lost."""
    for dispute in reversed(store.all("dispute")):
        due_by = cast("int", cast("Body", dispute["evidence_details"])["due_by"])
        if dispute["status"] in _ANSWERABLE and due_by <= store.now():
            cast("Body", dispute["evidence_details"])["past_due"] = True
            close(store, dispute, is_won=False)
