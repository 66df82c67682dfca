"""A usage record stays small, whatever is explained in it."""

import pytest
from django.db import connection

from tests.factories import metering as make

pytestmark = pytest.mark.django_db

ROUTING = {
    "by": "two_choices",
    "node": "node_crfpxc9bsk1gjbthsfm8",
    "against": {"node": "node_0kqv6ge3zt0q9x7r2m1d", "predicted_ms": 812},
    "candidates": 12,
    "refused": {"full": 2, "class": 3},
    "is_local": True,
    "predicted_ms": 640,
}


def _bytes(**overrides: object) -> int:
    row = make.usage_record(client_request_id="0190a5c0-7d2b-7cc3-98c4-dc0c0c07398f", **overrides)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_column_size(usage.*) FROM metering_usagerecord usage WHERE request_id = %s", [row.request_id]
        )
        return int(cursor.fetchone()[0])


# litellm#41499, #16582, #29342, #21908: 6.3 KB a row, 26 GB in 90 days, deletes that bloat and run out of memory
def test_a_record_has_some_hundred_bytes_with_its_routing_and_without():
    assert _bytes() <= 500
    assert _bytes(routing=ROUTING) <= 800
