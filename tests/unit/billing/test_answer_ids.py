"""A record carries the id that its answer had, whichever endpoint gave it, and is found by it."""

from uuid import UUID

import pytest

from portal.billing.rules.answer_ids import answer_id
from portal.gateway.requests_api import parse_id

REQUEST = UUID("01a22ba2-103d-7d74-9fba-ab2d5240c01a")


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ("chat/completions", "chatcmpl-01a22ba2-103d-7d74-9fba-ab2d5240c01a"),
        ("completions", "cmpl-01a22ba2-103d-7d74-9fba-ab2d5240c01a"),
        ("embeddings", "embd-01a22ba2-103d-7d74-9fba-ab2d5240c01a"),
        ("messages", "msg_01a22ba2103d7d749fbaab2d5240c01a"),
        ("responses", "resp_01a22ba2103d7d749fbaab2d5240c01a"),
        ("another", "01a22ba2-103d-7d74-9fba-ab2d5240c01a"),
    ],
)
def test_an_answers_id(endpoint: str, expected: str):
    assert answer_id(endpoint=endpoint, request_id=REQUEST) == expected
    assert parse_id(expected) == REQUEST
