"""What an approval is a yes to."""

import hashlib
from collections.abc import Iterable


def approval_hash(*, payout: str, amount_minor: int, currency: str, destination: str) -> str:
    """Return the hash over what is approved; any change makes another one."""
    text = "\n".join(["poolhouse-payout-v1", payout, str(amount_minor), currency, destination])
    return hashlib.sha256(text.encode()).hexdigest()


def run_hash(*, run: str, payouts: Iterable[str]) -> str:
    """Return the hash over the approval hashes of a run's payouts; one more, one less or one changed makes another."""
    return hashlib.sha256("\n".join(["poolhouse-payout-run-v1", run, *sorted(payouts)]).encode()).hexdigest()
