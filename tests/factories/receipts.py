"""Claims as a node's agent signs them, and the digest that its gateway would have taken."""

import base64
from datetime import datetime
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from poolhouse_common.receipts import TunnelDigest, claim_message

from portal.billing.rules.receipts import SignedClaim
from portal.core import ids
from portal.metering.models import UsageRecord
from tests.factories.billing import DELIVERED, Market

SEED = base64.b64encode(b"receipt signing seed of the tests"[:32]).decode()
NODE_KEY = Ed25519PrivateKey.from_private_bytes(b"a node key of these tests, 32 b.")
PUBLIC_KEY = base64.b64encode(NODE_KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
BODY, ANSWER = b'{"messages":[]}', (b'data: {"a"', b": 1}\n\n", b"data: [DONE]\n\n")


def digest(*pieces: bytes, nonce: str = "ab" * 16) -> TunnelDigest:
    """Return what either end of the tunnel takes of these pieces."""
    taken = TunnelDigest(nonce, BODY)
    for piece in pieces or ANSWER:
        taken.add(piece)
    return taken


def serve(market: Market, *, at: datetime = DELIVERED, proof: str | None = "", **overrides: Any) -> UsageRecord:
    """Deliver one request whose gateway kept a proof; its id is of the moment, as a real one."""
    made_at = int(at.timestamp() * 1000)
    request_id = type(ids.uuid7())(int=(ids.uuid7().int & ((1 << 80) - 1)) | (made_at << 80))
    proof = digest().proof() if proof == "" else proof
    return market.serve(request_id=request_id, closed_at=at, tunnel_proof=proof, **overrides)


def claim_of(record: UsageRecord, *, taken: TunnelDigest | None = None, **changes: object) -> SignedClaim:
    """Return the claim that the record's node makes, signed by NODE_KEY."""
    taken = taken or digest()
    claim = {
        "attempt": f"{record.request_id}/{record.attempt}",
        "nonce": taken.nonce,
        "answer_bytes": taken.answer_bytes,
        "digest": taken.hex(),
        "ending": "end",
        "began_at": "2026-11-02T11:59:58.000Z",
        "ended_at": "2026-11-02T12:00:00.000Z",
    } | changes
    signature = base64.b64encode(NODE_KEY.sign(claim_message(claim))).decode()
    return SignedClaim(claim, signature)
