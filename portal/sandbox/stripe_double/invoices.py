"""Invoices: what Checkout makes of a purchase, paid from its first moment, with a page behind a link."""

from typing import cast

from stripe import params

from portal.sandbox.stripe_double.api import Call, created_within, matching, page, route
from portal.sandbox.stripe_double.events import emit
from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.store import Store


def bill(store: Store, session: Body, intent: Body, asked: Body) -> None:
    """Write the session's invoice where it asked for one."""
    if not asked["has_invoice"]:
        return
    number = store.new_id("in")
    invoice = _amounts(session) | _facts(store, session, number)
    invoice |= {
        "description": asked["product"],
        "metadata": asked["invoice_metadata"],
        "number": f"STANDIN-{len(store.all('invoice')) + 1:04d}",
    }
    store.put("invoice", invoice)
    store.set_meta(f"invoice_payment:{number}", str(intent["id"]))
    session["invoice"] = number
    store.put("checkout.session", session)
    emit(store, "invoice.paid", invoice)


def _amounts(session: Body) -> Body:
    paid = session["amount_total"]
    return {
        "amount_due": paid,
        "amount_overpaid": 0,
        "amount_paid": paid,
        "amount_paid_off_stripe": 0,
        "amount_remaining": 0,
        "amount_shipping": 0,
        "currency": session["currency"],
        "post_payment_credit_notes_amount": 0,
        "pre_payment_credit_notes_amount": 0,
        "starting_balance": 0,
        "subtotal": session["amount_subtotal"],
        "total": paid,
    }


def _facts(store: Store, session: Body, number: str) -> Body:
    now, base = store.now(), store.meta("base")
    return {
        "id": number,
        "object": "invoice",
        "attempt_count": 1,
        "attempted": True,
        "auto_advance": False,
        "automatic_tax": {
            "disabled_reason": None,
            "enabled": cast("Body", session["automatic_tax"])["enabled"],
            "liability": None,
            "provider": cast("Body", session["automatic_tax"])["provider"],
            "status": cast("Body", session["automatic_tax"])["status"],
        },
        "collection_method": "charge_automatically",
        "created": now,
        "customer": session["customer"],
        "default_tax_rates": [],
        "discounts": [],
        "hosted_invoice_url": f"{base}/i/{number}",
        "invoice_pdf": f"{base}/i/{number}",
        "issuer": {"type": "self"},
        "lines": {"object": "list", "data": [], "has_more": False, "url": f"/v1/invoices/{number}/lines"},
        "livemode": session["livemode"],
        "payment_settings": {"default_mandate": None, "payment_method_options": None, "payment_method_types": None},
        "period_end": now,
        "period_start": now,
        "status": "paid",
        "status_transitions": {
            "finalized_at": now,
            "marked_uncollectible_at": None,
            "paid_at": now,
            "voided_at": None,
        },
    }


@route("GET", "/v1/invoices/{invoice}", params.InvoiceRetrieveParams)
def read_invoice(call: Call) -> Body:
    """Answer with an invoice."""
    return call.store.get("invoice", call.names[0], param="invoice")


@route("GET", "/v1/invoices", params.InvoiceListParams)
def list_invoices(call: Call) -> Body:
    """Answer with invoices, newest first, of one customer where asked."""
    found = created_within(call, call.store.all("invoice"))
    return page(call, matching(call, found, "customer", "status"))
