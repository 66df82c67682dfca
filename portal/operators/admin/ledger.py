"""Money: the ledger, postings, prices, leased credit and top-ups."""

from portal.billing.models import (
    AvailabilityHour,
    AvailabilityRate,
    BudgetLease,
    BudgetWindow,
    CreditLease,
    EarningMaturity,
    LedgerAccount,
    LedgerTransfer,
    LedgerTx,
    PriceEnd,
    PriceVersion,
    ProviderAdjustment,
    ReservedEarning,
    ShareVersion,
    Statement,
    TierMembership,
    TierPin,
    TopUp,
    UsagePosting,
)
from portal.metering.models import Spool
from portal.operators.admin.look_up import show

show(LedgerAccount, "code", "kind", "owner", "currency", "debits", "credits", "held", search=("code",))
show(LedgerTx, "id", "kind", "idempotency_key", "effective_at", "actor", search=("idempotency_key", "source_id"))
show(LedgerTransfer, "tx", "seq", "debit_account", "credit_account", "amount", search=("tx__idempotency_key",))
show(UsagePosting, "request_id", "attempt", "opened_on", "tx", "charge_nano", search=("request_id",))
show(EarningMaturity, "provider", "amount_nano", "matures_at", "matured_tx", search=("provider",))
show(ReservedEarning, "provider", "amount_nano", "clawed_nano", "release_at", "released_tx", search=("provider",))
show(TierPin, "provider", "tier", "reason", "pinned_by", "pinned_at")
show(ProviderAdjustment, "public_id", "provider", "kind", "reason", "amount_nano", "state", search=("public_id",))
show(PriceVersion, "model", "version", "effective_from", "prompt_nano_per_mtok", "completion_nano_per_mtok")
show(PriceEnd, "version", "at", "reason", "created_by")
show(ShareVersion, "provider", "tier", "share_bps", "effective_from", "created_by")
show(TierMembership, "provider", "tier", "effective_from", "created_by")
show(AvailabilityRate, "gpu_kind", "nano_per_minute", "effective_from", "created_by")
show(AvailabilityHour, "node", "hour", "gpus", "minutes", "amount_nano", "tx", search=("node", "provider"))
show(CreditLease, "id", "organization", "spool", "state", "granted", "used", "expires_at")
show(BudgetWindow, "owner", "period", "starts_at", "cap_nano", "used_nano", "leased_nano")
show(BudgetLease, "id", "window", "spool", "state", "granted", "used")
show(TopUp, "public_id", "organization", "amount_minor", "state", "paid_at", search=("public_id", "payment_intent"))
show(Statement, "number", "kind", "party", "starts_at", "frozen_at", search=("number", "party"))
show(Spool, "public_id", "process", "host", "state", "shipped_seq", "seen_at")
