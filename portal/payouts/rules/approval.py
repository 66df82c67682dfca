"""What an approval is a yes to."""

import hashlib


def approval_hash(*, payout: str, amount_minor: int, currency: str, destination: str) -> str:
    """Return the hash over what is approved; any change makes another one."""
    text = "\n".join(["poolhouse-payout-v1", payout, str(amount_minor), currency, destination])
    return hashlib.sha256(text.encode()).hexdigest()
