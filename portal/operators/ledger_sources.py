"""Where the page or the record of a ledger transaction's source is."""

from urllib.parse import urlencode

from django.urls import reverse

# Sources with a page of their own, and sources that are looked up in their table by what names them.
_PAGES = {
    "payout": "operators:payout",
    "ledger_tx": "operators:transaction",
    "adjustment": "operators:adjustment",
    "organization": "operators:customer",
}
_TABLES = {
    "topup": "billing_topup",
    "refund": "billing_refund",
    "dispute": "billing_dispute",
    "grant": "billing_promogrant",
    "bank_transfer": "billing_banktransfer",
    "bill": "billing_postpaidbill",
}


def link(*, source_type: str, source_id: str, tx_id: object = "") -> str:
    """Return the address of the source; a batch of usage or earnings is shown by its own transaction."""
    if source_type in _PAGES:
        return reverse(_PAGES[source_type], args=[source_id])
    if source_type == "stripe_movement":
        return f"{reverse('operators:stripe-books')}?{urlencode({'line': source_id})}"
    if source_type in _TABLES:
        return f"{reverse(f'operator_admin:{_TABLES[source_type]}_changelist')}?{urlencode({'q': source_id})}"
    return reverse("operators:transaction", args=[tx_id]) if tx_id else ""
