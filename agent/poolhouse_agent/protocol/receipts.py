"""Messages of receipts: claims that are handed in, and what the portal makes of each."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from poolhouse_agent.errors import PortalError
from poolhouse_agent.protocol.reading import Reader

MAX_CLAIMS = 200
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one claim: `signed` with the receipt, `waiting` for its attempt, or `refused` with a code."""

    attempt: str
    state: str
    code: str = ""
    receipt: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ReceiptsReply:
    """The portal's key and what became of each claim."""

    signing_key: str
    results: tuple[Result, ...]


def receipts_body(claims: Sequence[tuple[Mapping[str, Any], str]]) -> dict[str, Any]:
    """The body that hands in claims, each with the node's signature."""
    return {"claims": [{"claim": dict(claim), "signature": signature} for claim, signature in claims]}


def read_receipts(value: object) -> ReceiptsReply:
    """Read the portal's answer. Raises PortalError."""
    reader = Reader(value, where="the answer to claims")
    key = reader.text("signing_key", limit=64)
    try:
        is_key = len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except (ValueError, binascii.Error):
        is_key = False
    if not is_key:
        raise PortalError("portal_error", "`signing_key` of the answer to claims is not 32 bytes in base64")
    return ReceiptsReply(key, tuple(_result(one) for one in reader.items("results", limit=MAX_CLAIMS)))


def _result(value: object) -> Result:
    reader = Reader(value, where="a claim's result")
    receipt = reader.table("receipt")
    return Result(
        attempt=reader.text("attempt", limit=64),
        state=reader.text("state", limit=16),
        code=reader.text("code", limit=48, default=""),
        receipt=receipt or None,
    )
