"""Money's other rows: purchases' aftermath, closes, checks, Stripe's own books, tax documents."""

from portal.billing.models import (
    BankTransfer,
    BooksDay,
    Dispute,
    LedgerCheck,
    LedgerDifference,
    PeriodBalance,
    PostpaidBill,
    PromoGrant,
    Refund,
    StripeMovement,
)
from portal.operators.admin.look_up import show
from portal.payouts.models import CreditNote, PayoutTax, TaxProfile

show(PromoGrant, "key", "organization", search=("key", "public_id"))
show(BankTransfer, "public_id", "organization", "state", search=("public_id",))
show(PostpaidBill, "public_id", "organization", search=("public_id",))
show(
    Refund, "public_id", "organization", "amount_minor", "state", "stripe_refund", search=("public_id", "stripe_refund")
)
show(Dispute, "stripe_dispute", "organization", "amount_minor", "status", search=("stripe_dispute",))
show(StripeMovement, "stripe_id", "type", "net_minor", "moved_at", "source_type", "source_id", search=("stripe_id",))
show(PeriodBalance, "period", "account", "debits", "credits", search=("account__code",))
show(BooksDay, "day", "sha256", "frozen_at")
show(LedgerCheck, "checked_at", "difference_count", "stripe_problem", "took_ms")
show(LedgerDifference, "code", "subject", "first_seen_at", "last_seen_at", "resolved_at", search=("code", "subject"))
show(TaxProfile, "provider", "status", "country", "tax_id", "vat_rate_bps", "confirmed_at", search=("tax_id",))
show(PayoutTax, "payout", "treatment", "net_minor", "vat_minor", "no_note_reason", search=("payout__public_id",))
show(CreditNote, "number", "provider", "net_minor", "vat_minor", "issued_at", search=("number", "public_id"))
