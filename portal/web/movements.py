"""How a ledger transaction is named to the party whose accounts it moved: one set of words for every page."""

_WORDS = {
    "topup": "Credit bought",
    "bank_credit": "Bank transfer",
    "bank_credit_reversed": "Bank transfer taken back",
    "postpaid_limit": "Limit of paying afterwards",
    "postpaid_write_off": "Bill written off",
    "promo_grant": "Promotional credit",
    "promo_expiry": "Promotional credit expired",
    "refund_reserved": "Refund under way",
    "refund_failed": "Refund came to nothing, amount returned",
    "dispute_out": "Payment disputed",
    "refund_sent": "Refund sent",
    "refund_returned": "Refund came back",
    "dispute_fee": "Fee of a dispute",
    "debt_collected": "Credit paid what was owed",
    "debt_written_off": "Debt written off",
    "dispute_back": "Dispute won",
    "maturity": "Earnings became available",
    "availability": "Paid for standing ready",
    "payout_reserved": "Set aside for a payout",
    "payout_sent": "Paid out",
    "payout_rejected": "Payout rejected, amount returned",
    "transfer_reversed": "Payout reversed, amount returned",
    "reserve_released": "Reserve released",
    "debt_netted": "Debt taken from earnings",
    "provider_clawback": "Taken back",
    "provider_credit": "Correction in your favour",
    "payout_fee": "Stripe's fee for a payout",
    "payout_fee_returned": "Stripe's fee returned",
    "dust_written_off": "Less than the smallest unit, written off",
    "recovery_frozen": "Set aside while a backup is recovered",
    "recovery_frozen_reversal": "No longer set aside",
    "held_released": "Held earnings released",
    "held_expired": "Held earnings forfeited",
    "payout_paid_by_bank": "Paid out by bank transfer",
    "input_vat": "Input VAT",
    "payout_vat": "VAT on top of a payout",
    "payout_vat_returned": "VAT of a payout returned",
    "bank_payout_returned": "Bank transfer returned, amount available again",
}


def named(kind: str) -> str:
    """Return the words for a kind of transaction; a kind without words of its own is spelled out."""
    return _WORDS.get(kind, kind.replace("_", " ").capitalize())
