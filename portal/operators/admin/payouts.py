"""Payouts and what Stripe said."""

from portal.operators.admin.look_up import show
from portal.payouts.models import Payout, PayoutAccount, PayoutApproval, PayoutAttempt
from portal.webhooks.models import StripeEvent

show(PayoutAccount, "provider", "stripe_account", "state", "state_code", "fetched_at", search=("stripe_account",))
show(Payout, "public_id", "provider", "amount_minor", "state", "sent_at", search=("public_id",), filters=("state",))
show(PayoutApproval, "payout", "approved_by", "approved_at")
show(PayoutAttempt, "payout", "number", "created_at", "finished_at", "result", "error_code")
show(StripeEvent, "received_at", "source", "type", "state", "event_id", search=("event_id",), hidden=("body",))
