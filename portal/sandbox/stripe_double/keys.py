"""Idempotency as Stripe documents it.

v1: the first answer is kept for a day once execution began, errors included; other parameters under the same key are
refused; a key in use answers 409. v2: a success is answered again, a failure is executed again.
"""

import hashlib
import json
from dataclasses import dataclass

from portal.sandbox.stripe_double.faults import Body, Refusal
from portal.sandbox.stripe_double.store import Store

KEPT_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer to give again."""

    status: int
    body: Body


class Keys:
    """The keys of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def begin(self, *, account: str, key: str, request: str) -> Kept | None:
        """Take the key, or return the answer kept under it. Raises Refusal for a mismatch or a key in use."""
        with self._store.transaction():
            self._store.rows("DELETE FROM keys WHERE created <= ?", self._store.now() - KEPT_S)
            found = self._store.rows(
                "SELECT request, status, body FROM keys WHERE account = ? AND key = ?", account, key
            )
            if not found:
                self._store.rows(
                    "INSERT INTO keys VALUES (?, ?, ?, ?, NULL, NULL)", account, key, request, self._store.now()
                )
                return None
            before, status, body = found[0]
            if before != request:
                raise _mismatch(key)
            if status is None:
                raise _in_use(key)
            return Kept(int(str(status)), json.loads(str(body)))

    def keep(self, *, account: str, key: str, status: int, body: Body) -> None:
        """Keep the answer."""
        self._store.rows(
            "UPDATE keys SET status = ?, body = ? WHERE account = ? AND key = ?", status, json.dumps(body), account, key
        )

    def forget(self, *, account: str, key: str) -> None:
        """Give the key free: execution never began, or v2 failed."""
        self._store.rows("DELETE FROM keys WHERE account = ? AND key = ?", account, key)


def fingerprint(method: str, path: str, params: Body) -> str:
    """Return what must be equal for two requests to be the same."""
    text = json.dumps([method, path, params], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _mismatch(key: str) -> Refusal:
    return Refusal(
        400,
        "",
        f"Keys for idempotent requests can only be used with the same parameters they were first used with. Key: {key}",
        type="idempotency_error",
        is_stored=False,
    )


def _in_use(key: str) -> Refusal:
    return Refusal(
        409,
        "idempotency_key_in_use",
        f"There is currently another in-progress request using this Idempotent Key: {key}",
        type="idempotency_error",
        is_stored=False,
    )
