"""A spool record comes back as it was written, and the same record has the same hash for ever."""

from dataclasses import replace
from datetime import UTC, date, datetime
from uuid import UUID

from portal.metering.rules import spool_records
from portal.metering.rules.draws import Draws
from portal.metering.rules.spool_records import MarkRecord, OpenRecord, PinnedPrice

REQUEST = "01930000-0000-7000-8000-000000000001"
OPEN = OpenRecord(
    row={
        "request_id": REQUEST,
        "attempt": 2,
        "organization_id": 1,
        "api_key_id": 2,
        "provider_id": 3,
        "node_id": 4,
        "model_id": 5,
        "price_version_id": 6,
        "share_bps": 8000,
        "is_stream": True,
        "endpoint": "chat/completions",
        "node_class": "house",
        "country": "DE",
        "client_request_id": "mine",
        "routing": {"by": "only"},
    },
    price=PinnedPrice(1, 2, 3, 4),
    draws=Draws([[7, 9_000]], [[[8, 4_000], [9, 5_000]]]),
    requested_at=1_764_547_199.9,
    opened_at=1_764_547_200.5,
    prompt_bound=100,
    output_bound=50,
    has_tolerance=True,
    end_tokens=1,
)
CLOSE = {
    "hold_nano": 9_000,
    "lease_ids": [7],
    "lease_charges": [100],
    "budget_lease_ids": [8, 9],
    "budget_charges": [100, 0],
    "prompt_tokens": 10,
    "cached_tokens": 0,
    "completion_tokens": 5,
    "claimed_prompt_tokens": 10,
    "claimed_cached_tokens": None,
    "expected_cached_tokens": None,
    "claimed_completion_tokens": 5,
    "counted_prompt_tokens": 10,
    "counted_completion_tokens": 5,
    "delivered_bytes": 20,
    "token_source": "claim",
    "charge_nano": 100,
    "provider_nano": 80,
    "platform_nano": 20,
    "outcome": "completed",
    "error_code": "",
    "first_token_at": 1_764_547_201.0,
    "closed_at": 1_764_547_202.0,
}


def _row(**changes: object):
    return spool_records.usage_row(
        spool_id="spool_a",
        seq=3,
        opened=spool_records.encode_open(OPEN),
        closed=spool_records.encode_close(CLOSE | changes),
    )


def test_open_and_mark_records_round_trip():
    mark = MarkRecord(1.5, None, 10, 1, None, 3, None, 4)
    grown = replace(mark, draws=Draws([[7, 12_000]], []))

    assert spool_records.decode_open(spool_records.encode_open(OPEN)) == OPEN
    assert spool_records.decode_mark(spool_records.encode_mark(mark)) == mark
    assert spool_records.decode_mark(spool_records.encode_mark(grown)) == grown


def test_open_and_close_make_the_usage_row():
    row = _row()

    assert (row.request_id, row.attempt, row.spool_seq) == (UUID(REQUEST), 2, 3)
    assert row.opened_at == datetime(2025, 12, 1, 0, 0, 0, 500_000, tzinfo=UTC)
    assert (row.first_token_at - row.opened_at).total_seconds() == 0.5
    assert row.routing == {"by": "only"}


def test_the_day_is_that_of_the_request_so_that_all_its_attempts_share_it():
    assert _row().opened_on == date(2025, 11, 30)


def test_an_answer_without_a_first_token_has_none():
    assert _row(first_token_at=None).first_token_at is None


def test_the_hash_is_the_same_for_the_same_record_and_differs_with_any_field():
    assert _row().content_hash() == _row().content_hash()
    assert _row().content_hash() != _row(completion_tokens=6).content_hash()
    assert _row().content_hash() == "d298edcd57ef5d2d5722ac6e327ad5314c2340ebf4b619973f11e50d9ea6b5fd"
