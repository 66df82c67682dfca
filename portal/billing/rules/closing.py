"""The digests that chain what is frozen: whoever holds the newest one holds all before it."""

import hashlib
import json
from collections.abc import Iterable, Mapping

BalanceLine = tuple[str, str, int, int]  # account code, currency, debits and credits in nano units


def period_digest(*, period: str, previous: str, lines: Iterable[BalanceLine]) -> str:
    """Return the hex SHA-256 over a month, the digest of the month closed before it and every balance by code."""
    balances = [[code, currency, str(debits), str(credits_)] for code, currency, debits, credits_ in sorted(lines)]
    return _digest({"period": period, "previous": previous, "balances": balances})


def day_digest(*, content: Mapping[str, object], previous: str) -> str:
    """Return the hex SHA-256 over one published day and the digest of the day before it."""
    return _digest({"previous": previous, "content": dict(content)})


def _digest(content: Mapping[str, object]) -> str:
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(plain.encode()).hexdigest()
