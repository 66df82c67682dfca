"""What makes two ledger transactions the same event."""

import hashlib
import json
from collections.abc import Iterable

Leg = tuple[str, str, int, str]  # debit account code, credit account code, amount in nano, currency


def content_hash(*, kind: str, source_type: str, source_id: str, legs: Iterable[Leg]) -> str:
    """Return the hex SHA-256 over what happened; who told us and when are no part of it, so a retry matches."""
    text = json.dumps([kind, source_type, source_id, [list(leg) for leg in legs]], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
