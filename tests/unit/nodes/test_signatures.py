"""Keys and signatures of nodes."""

import base64

import pytest

from portal.core.errors import InvalidValue
from portal.nodes.rules import signatures
from tests.factories.nodes import AgentKey

KEY = AgentKey.of(1)
FACTS = {"nonce": "ab" * 32, "node": "node_1", "public_url": "https://pool.example"}


def test_a_signature_is_good_for_its_own_words_alone():
    signature = KEY.sign_session(**FACTS)

    assert signatures.is_signed(
        public_key=KEY.public, message=signatures.session_message(**FACTS, protocol=1), signature=signature
    )
    for change in ({"nonce": "cd" * 32}, {"node": "node_2"}, {"public_url": "https://evil.example"}):
        other = signatures.session_message(**{**FACTS, **change}, protocol=1)
        assert not signatures.is_signed(public_key=KEY.public, message=other, signature=signature)


def test_another_key_proves_nothing():
    message = signatures.session_message(**FACTS, protocol=1)

    assert not signatures.is_signed(
        public_key=AgentKey.of(2).public, message=message, signature=KEY.sign_session(**FACTS)
    )


@pytest.mark.parametrize("signature", ["", "!!!", "AAAA", base64.b64encode(b"\0" * 64).decode(), "é" * 88])
def test_what_is_no_signature_is_refused_without_a_traceback(signature):
    message = signatures.session_message(**FACTS, protocol=1)

    assert not signatures.is_signed(public_key=KEY.public, message=message, signature=signature)


@pytest.mark.parametrize(
    "text", ["", "short", "é", base64.b64encode(b"x" * 31).decode(), base64.b64encode(b"x" * 33).decode()]
)
def test_a_key_has_32_bytes(text):
    with pytest.raises(InvalidValue):
        signatures.require_public_key(text)


@pytest.mark.parametrize("number", [0, 1, 2**255 - 19, 2**255 - 20, 2**255])
def test_a_key_of_small_order_is_refused(number):
    raw = number.to_bytes(32, "little")

    with pytest.raises(InvalidValue, match="proves nothing"):
        signatures.require_public_key(base64.b64encode(raw).decode())
