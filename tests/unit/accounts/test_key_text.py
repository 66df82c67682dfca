"""The text of an API key."""

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from portal.accounts.rules import key_text


def test_a_new_key_has_the_documented_shape():
    made = key_text.new_key()

    prefix, pool, public_id, secret, checksum = made.text.split("-")
    assert (prefix, pool, public_id) == ("sk", "pool", made.public_id)
    assert (len(public_id), len(secret), len(checksum)) == (16, 32, 8)
    assert key_text.is_well_formed(made.text)


def test_two_keys_differ():
    first, second = key_text.new_key(), key_text.new_key()

    assert first.public_id != second.public_id
    assert first.text.split("-")[3] != second.text.split("-")[3]


def test_the_digest_is_the_sha256_of_the_text():
    assert key_text.digest("sk-pool-x") == hashlib.sha256(b"sk-pool-x").hexdigest()


@given(st.integers(min_value=0, max_value=65), st.sampled_from("0123456789abcdefghjkmnpqrstvwxyz"))
def test_a_typing_error_is_found(position: int, letter: str):
    text = key_text.new_key().text
    typed = text[:position] + letter + text[position + 1 :]

    assert key_text.is_well_formed(typed) is (typed == text)


@given(st.text(max_size=80))
def test_other_text_is_not_a_key(text: str):
    assert not key_text.is_well_formed(text)
