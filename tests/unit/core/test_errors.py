"""How a refusal reads to a person."""

import pytest

from portal.core.errors import Conflict


@pytest.mark.parametrize(
    ("message", "fix", "read"),
    [
        (
            "a/b has a price from 2026-12-01",
            "choose a later time",
            "a/b has a price from 2026-12-01. Choose a later time.",
        ),
        ("The key is revoked.", "Create another one.", "The key is revoked. Create another one."),
        ("the node is retired", None, "the node is retired"),
    ],
)
def test_a_refusal_reads_as_sentences(message: str, fix: str | None, read: str):
    assert Conflict(message, fix=fix).sentences == read
