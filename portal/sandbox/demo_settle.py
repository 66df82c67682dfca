"""From delivered requests to a payout at the Stripe stand-in, and the figures of it.

`python -m portal.sandbox.demo_settle` runs in the supervisor's environment: JSON in, JSON out.
"""

import json
import sys
from typing import TYPE_CHECKING, Any

import django
import httpx

from portal.sandbox import waiting

if TYPE_CHECKING:
    from portal.payouts.models import Payout

_POSTED_WITHIN_S = 40
_PAID_WITHIN_S = 40
_UNPAID = {"payout_minor": 0, "payout_state": "none", "stripe_transfer": None}
_CLOCK_ADVANCE_S = 8 * 86_400


def settle(given: dict[str, Any]) -> dict[str, Any]:
    """Wait until the customer's requests are booked, mature them, pay the provider out, and return the figures."""
    from portal.core import clock
    from portal.payouts.services import ledger_checks

    wanted = int(given["requests"])
    waiting.until("the usage is booked", lambda: _booked(given["customer"]) >= wanted, timeout_s=_POSTED_WITHIN_S)
    paid = _paid_out(given) if given["is_paid"] else _UNPAID
    return {
        **_figures(given["customer"]),
        **paid,
        "ledger_differences": len(ledger_checks.check(now=clock.now()).differences),
    }


def _paid_out(given: dict[str, Any]) -> dict[str, Any]:
    payout = approved(given)
    if payout is None:
        raise RuntimeError("there is nothing to pay out")
    sent = _sent(payout)
    return {"payout_minor": sent.amount_minor, "payout_state": sent.state, "stripe_transfer": sent.stripe_transfer}


def _booked(customer: str) -> int:
    from portal.billing.models import UsagePosting

    return UsagePosting.objects.filter(request_id__in=[row["request_id"] for row in _usage(customer)]).count()


def _usage(customer: str) -> list[dict[str, Any]]:
    from portal.accounts.models import Organization
    from portal.metering.models import UsageRecord

    organization = Organization.objects.get(public_id=customer)
    rows = UsageRecord.objects.filter(organization_id=organization.pk, charge_nano__gt=0)
    fields = ("request_id", "prompt_tokens", "completion_tokens", "charge_nano", "provider_nano", "platform_nano")
    return list(rows.order_by("opened_at", "request_id").values(*fields))


def _figures(customer: str) -> dict[str, int]:
    rows = _usage(customer)
    return {
        "requests": len(rows),
        "prompt_tokens": sum(row["prompt_tokens"] for row in rows),
        "completion_tokens": sum(row["completion_tokens"] for row in rows),
        "charged_nano": sum(row["charge_nano"] for row in rows),
        "provider_earned_nano": sum(row["provider_nano"] for row in rows),
        "platform_nano": sum(row["platform_nano"] for row in rows),
    }


def _advance_clock(stripe_url: str) -> None:
    """Card money is available at Stripe some days after the purchase."""
    answer = httpx.post(
        f"{stripe_url}/_double/clock/advance", json={"seconds": _CLOCK_ADVANCE_S}, timeout=10, trust_env=False
    )
    answer.raise_for_status()


def approved(given: dict[str, Any]) -> "Payout | None":
    """Mature what is due, draft the provider's payout and approve it; None where nothing is payable."""
    from portal.accounts.models import User
    from portal.audit.services import Actor
    from portal.billing.services import maturity
    from portal.core import clock
    from portal.payouts.models import Payout, PayoutState
    from portal.payouts.services import approvals, drafts

    _advance_clock(given["stripe_url"])
    maturity.mature(now=clock.now())
    operator = User.objects.get(email=given["operator"])
    actor = Actor(public_id=operator.public_id)
    drafts.draft_payouts(now=clock.now(), actor=actor)
    waiting_states = [PayoutState.DRAFT, PayoutState.RESERVED]
    payout = Payout.objects.filter(provider__public_id=given["provider"], state__in=waiting_states).first()
    if payout is not None:
        approvals.approve(payout_public_id=payout.public_id, approver=operator, actor=actor, now=clock.now())
    return payout


def _sent(payout: "Payout") -> "Payout":
    """Wait for the worker, which sends what is approved."""
    from portal.payouts.models import PayoutState

    def is_sent() -> bool:
        payout.refresh_from_db()
        return payout.state in {PayoutState.TRANSFERRED, PayoutState.REJECTED, PayoutState.NEEDS_REVIEW}

    waiting.until(f"payout {payout.public_id} is sent", is_sent, timeout_s=_PAID_WITHIN_S)
    return payout


def main() -> None:
    """Settle what standard input names."""
    given = json.loads(sys.stdin.read())
    django.setup()
    print(json.dumps(settle(given)))


if __name__ == "__main__":
    main()
