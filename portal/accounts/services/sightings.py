"""Keep from where keys are used. Written by gateways in batches; the same batch twice changes nothing."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import connection

MAX_PLACES = 500
# A key that is used from everywhere keeps the places known so far: rows are bounded whoever holds the key.
_UPSERT = f"""
    INSERT INTO accounts_keysighting
        (key_id, network, country, first_seen_at, last_seen_at, old_secret_seen_at)
    SELECT seen.key_id, seen.network, seen.country, seen.at, seen.at, CASE WHEN seen.is_old THEN seen.at END
    FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::timestamptz[], %s::boolean[])
        AS seen (key_id, network, country, at, is_old)
    JOIN accounts_apikey key ON key.id = seen.key_id
    WHERE (SELECT count(*) FROM accounts_keysighting known WHERE known.key_id = seen.key_id) < {MAX_PLACES}
       OR EXISTS (SELECT FROM accounts_keysighting known WHERE known.key_id = seen.key_id
                  AND known.network = seen.network AND known.country = seen.country)
    ORDER BY seen.key_id, seen.network, seen.country
    ON CONFLICT (key_id, network, country) DO UPDATE SET
        last_seen_at = greatest(accounts_keysighting.last_seen_at, excluded.last_seen_at),
        old_secret_seen_at = greatest(accounts_keysighting.old_secret_seen_at, excluded.old_secret_seen_at)
"""  # noqa: S608  a number of our own


@dataclass(frozen=True, slots=True)
class Seen:
    """A key that was used from a network, and where a trusted proxy tells it a country."""

    key_id: int
    network: str
    country: str
    at: datetime
    is_old_secret: bool = False


def record(*, seen: Iterable[Seen]) -> None:
    """Keep the places and when each was last used. Raises django.db.Error."""
    rows = _together(seen)
    if not rows:
        return
    columns: list[Any] = [
        [row.key_id for row in rows],
        [row.network for row in rows],
        [row.country for row in rows],
        [row.at for row in rows],
        [row.is_old_secret for row in rows],
    ]
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT, columns)


def _together(seen: Iterable[Seen]) -> list[Seen]:
    """Return one row a place: the database takes each once in a statement. Both secrets at once: the old one counts."""
    places: dict[tuple[int, str, str], Seen] = {}
    for row in seen:
        place = (row.key_id, row.network, row.country)
        known = places.get(place)
        if known is None:
            places[place] = row
            continue
        places[place] = Seen(*place, at=max(row.at, known.at), is_old_secret=row.is_old_secret or known.is_old_secret)
    return list(places.values())
