"""What `demo_break` asks the database: is every stream in the books exactly once, and is a payout paid exactly once?

`python -m portal.sandbox.demo_audit audit|begin_payout` runs in the demo's environment: JSON in, JSON out.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import django
import httpx

from portal.sandbox import waiting

_BOOKED_S = 60
_PAID_S = 60
_CLOCK_ADVANCE_S = 8 * 86_400
_NEVER_CHARGED = {"node_fault", "node_timeout", "node_busy", "empty", "customer_error"}


def audit(given: dict[str, Any]) -> dict[str, Any]:
    """Compare the streams that customers saw with the usage records, the postings and the ledger."""
    from portal.billing.services import reconcile
    from portal.core import clock

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
        "ledger_differences": len(reconcile.differences(now=clock.now())),
    }


def begin_payout(given: dict[str, Any]) -> dict[str, Any]:
    """Draft and approve a payout of what has matured, so that the worker sends it while it is being broken."""
    from portal.sandbox import demo_settle

    payout = demo_settle.approved(given)
    return {"payout": payout.public_id if payout else ""}


def _records(seen: dict[str, int]) -> list[dict[str, Any]]:
    from portal.metering.models import UsageRecord

    fields = ("request_id", "attempt", "outcome", "charge_nano", "provider_nano", "platform_nano")
    return list(UsageRecord.objects.filter(request_id__in=list(seen)).values(*fields))


def _lost(seen: dict[str, int]) -> list[str]:
    """Name the streams that gave a customer text and have no record, or one that should have charged and did not."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in _records(seen):
        rows.setdefault(str(row["request_id"]), []).append(row)
    lost = []
    for request, characters in seen.items():
        attempts = rows.get(request, [])
        is_charged = any(row["charge_nano"] > 0 for row in attempts)
        is_faulty = any(row["outcome"] in _NEVER_CHARGED for row in attempts)
        if not attempts or (characters and not is_charged and not is_faulty):
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
    """Wait until the payout is paid, and count its transfers at the stand-in."""
    from django.conf import settings

    from portal.payouts.models import Payout, PayoutState

    payout = Payout.objects.get(public_id=given["payout"])

    def is_over() -> bool:
        payout.refresh_from_db()
        return payout.state in {PayoutState.TRANSFERRED, PayoutState.REJECTED, PayoutState.NEEDS_REVIEW}

    waiting.until(f"payout {payout.public_id} is paid", is_over, timeout_s=_PAID_S)
    listed = httpx.get(
        f"{given['stripe_url']}/v1/transfers",
        params={"destination": payout.destination, "limit": 100},
        auth=(settings.STRIPE_API_KEY, ""),
        timeout=10,
        trust_env=False,
    )
    listed.raise_for_status()
    same = [one for one in listed.json()["data"] if payout.public_id in json.dumps(one)]
    if len(same) != 1 or payout.state != PayoutState.TRANSFERRED:
        raise RuntimeError(f"payout {payout.public_id} is {payout.state} with {len(same)} transfers at Stripe")
    return {"state": payout.state, "transfers": len(same), "amount_minor": payout.amount_minor}


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
