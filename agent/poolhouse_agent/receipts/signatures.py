"""Who signed what: the node its claim, the portal the whole receipt."""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from poolhouse_common import receipts


def is_nodes(receipt: Mapping[str, Any]) -> bool:
    """Tell whether the claim is signed by the node key that the receipt names."""
    return _is_signed(receipt.get("node_key"), receipts.claim_message(receipt["claim"]), receipt.get("node_signature"))


def is_portals(receipt: Mapping[str, Any], *, portal_key: str) -> bool:
    """Tell whether the receipt is signed by this portal key."""
    return _is_signed(portal_key, receipts.countersign_message(receipt), receipt.get("portal_signature"))


def _is_signed(key: object, message: bytes, signature: object) -> bool:
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b64decode(str(key), validate=True))
        public.verify(base64.b64decode(str(signature), validate=True), message)
    except (InvalidSignature, ValueError, binascii.Error):
        return False
    return True
