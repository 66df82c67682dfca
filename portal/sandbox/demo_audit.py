"""What `demo_break` asks the database: is every stream in the books exactly once, and is a payout paid exactly once?

`python -m portal.sandbox.demo_audit audit|begin_payout` runs in the demo's environment: JSON in, JSON out.
"""

import json
import sys
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any

import django
import httpx

from portal.sandbox import waiting

if TYPE_CHECKING:
    from portal.payouts.models import Payout

_CALLED_S = 0.5
_BOOKED_S = 60
_PAID_S = 60
_NEVER_CHARGED = {"node_fault", "node_timeout", "node_busy", "empty", "customer_error"}


def audit(given: dict[str, Any]) -> dict[str, Any]:
    """Compare the streams that customers saw with the usage records, the postings and the ledger."""
    from portal.core import clock
    from portal.payouts.services import ledger_checks

    seen: dict[str, int] = given["requests"]
    try:
        waiting.until("every stream is booked", lambda: not (_lost(seen) or _unbooked(seen)), timeout_s=_BOOKED_S)
    except waiting.TookTooLong as error:
        print(f"demo-audit: {error}", file=sys.stderr)
    rows = _records(seen)
    return {
        "streams": len(seen),
        "lost": _lost(seen),
        "doubled": _doubled(seen),
        "unbooked": _unbooked(seen),
        "outcomes": _count(row["outcome"] for row in rows),
        "charged_nano": sum(row["charge_nano"] for row in rows),
        "provider_nano": sum(row["provider_nano"] for row in rows),
        "platform_nano": sum(row["platform_nano"] for row in rows),
        "payout": _finished_payout(given) if given["payout"] else {},
        "ledger_differences": len(ledger_checks.check(now=clock.now()).differences),
    }


def begin_payout(given: dict[str, Any]) -> dict[str, Any]:
    """Approve a payout of what has matured, and return in the middle of its transfer.

    Stripe makes the transfer and its answer hangs: the worst moment for either side to die.
    """
    from portal.payouts.models import PayoutState
    from portal.sandbox import demo_settle

    hang = {"method": "POST", "path": "/v1/transfers", "kind": "timeout", "when": "after"}
    httpx.post(f"{given['stripe_url']}/_double/fail", json=hang, timeout=10, trust_env=False).raise_for_status()
    payout = demo_settle.approved(given)
    if payout is None:
        return {"payout": ""}

    def is_sending() -> bool:
        payout.refresh_from_db()
        return payout.state == PayoutState.SENDING

    waiting.until(f"payout {payout.public_id} is being sent", is_sending, timeout_s=_PAID_S)
    Event().wait(_CALLED_S)
    return {"payout": payout.public_id}


def _records(seen: dict[str, int]) -> list[dict[str, Any]]:
    from portal.metering.models import UsageRecord

    money = ("charge_nano", "provider_nano", "platform_nano")
    rows = UsageRecord.objects.filter(request_id__in=list(seen)).order_by("request_id", "attempt")
    return list(rows.values("request_id", "attempt", "outcome", "completion_tokens", *money))


def _lost(seen: dict[str, int]) -> list[str]:
    """Name the streams whose tokens are not in the books and whose node was not at fault."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in _records(seen):
        rows.setdefault(str(row["request_id"]), []).append(row)
    lost = []
    for request, owed in seen.items():
        attempts = rows.get(request, [])
        booked = sum(row["completion_tokens"] for row in attempts if row["charge_nano"] > 0)
        is_faulty = bool(attempts) and attempts[-1]["outcome"] in _NEVER_CHARGED
        if not attempts or (booked < owed and not is_faulty):
            lost.append(request)
    return lost


def _doubled(seen: dict[str, int]) -> list[str]:
    charged = [str(row["request_id"]) for row in _records(seen) if row["charge_nano"] > 0]
    return sorted({request for request in charged if charged.count(request) > 1})


def _unbooked(seen: dict[str, int]) -> list[str]:
    from portal.billing.models import UsagePosting

    charged = {str(row["request_id"]) for row in _records(seen) if row["charge_nano"] > 0}
    booked = UsagePosting.objects.filter(request_id__in=list(charged)).values_list("request_id", flat=True)
    return sorted(charged - {str(request) for request in booked})


def _finished_payout(given: dict[str, Any]) -> dict[str, Any]:
    """Let the payout be reconciled as if its silence had lasted, and count its transfers at the stand-in."""
    from portal.core import clock
    from portal.integrations import stripe
    from portal.payouts.models import Payout, PayoutState
    from portal.payouts.services import runs

    payout = Payout.objects.get(public_id=given["payout"])

    def is_over() -> bool:
        runs.run(now=clock.now() + stripe.SILENT_AFTER)
        payout.refresh_from_db()
        return payout.state in {PayoutState.TRANSFERRED, PayoutState.REJECTED, PayoutState.NEEDS_REVIEW}

    waiting.until(f"payout {payout.public_id} is paid", is_over, timeout_s=_PAID_S)
    transfers = _transfers(given["stripe_url"], payout)
    if transfers != 1 or payout.state != PayoutState.TRANSFERRED:
        raise RuntimeError(f"payout {payout.public_id} is {payout.state} with {transfers} transfers at Stripe")
    return {"state": payout.state, "transfers": transfers, "amount_minor": payout.amount_minor}


def _transfers(stripe_url: str, payout: "Payout") -> int:
    from django.conf import settings

    listed = httpx.get(
        f"{stripe_url}/v1/transfers",
        params={"destination": payout.destination, "limit": 100},
        headers={"authorization": f"Bearer {settings.STRIPE_API_KEY}"},
        timeout=10,
        trust_env=False,
    )
    listed.raise_for_status()
    return sum(payout.public_id in json.dumps(one) for one in listed.json()["data"])


def _count(words: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for word in words:
        counts[word] = counts.get(word, 0) + 1
    return counts


_STEPS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"audit": audit, "begin_payout": begin_payout}


def main() -> None:
    """Run the step that is named on the command line."""
    given = json.loads(sys.stdin.read() or "{}")
    django.setup()
    print(json.dumps(_STEPS[sys.argv[1]](given)))


if __name__ == "__main__":
    main()
