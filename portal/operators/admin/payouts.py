"""Payouts and what Stripe said."""

from portal.operators.admin.look_up import show
from portal.payouts.models import (
    BankLeg,
    Payout,
    PayoutAccount,
    PayoutApproval,
    PayoutAttempt,
    PayoutPlan,
    PayoutReversal,
    PayoutRun,
    RunSkip,
)
from portal.webhooks.models import StripeEvent

show(PayoutAccount, "provider", "stripe_account", "state", "state_code", "fetched_at", search=("stripe_account",))
show(Payout, "public_id", "provider", "amount_minor", "state", "sent_at", search=("public_id",), filters=("state",))
show(PayoutApproval, "payout", "approved_by", "approved_at")
show(PayoutAttempt, "payout", "number", "created_at", "finished_at", "result", "error_code")
show(PayoutRun, "public_id", "origin", "created_at", "created_by", "checked_at", search=("public_id",))
show(RunSkip, "run", "provider", "code", "available_nano")
show(PayoutPlan, "provider", "schedule", "threshold_minor", "left_at", "settled_at")
show(PayoutReversal, "public_id", "payout", "amount_minor", "state", "requested_at", "error_code")
show(BankLeg, "payout", "bank_payout", "status", "arrives_at", "failure")
show(StripeEvent, "received_at", "source", "type", "state", "event_id", search=("event_id",), hidden=("body",))
