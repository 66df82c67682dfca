"""Promotional credit: what expires first is spent first, and what is left of a grant when its time is over."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant: what was left of it when it was last looked at, and when that ends (None: never)."""

    number: int
    rest_nano: int
    expires_at: datetime | None


def in_order(grants: Sequence[Grant]) -> list[Grant]:
    """Return the grants in the order in which they are spent: what expires first, then the older; never comes last."""
    return sorted(grants, key=lambda grant: (_end(grant), grant.number))


def _end(grant: Grant) -> datetime:
    return grant.expires_at or _NEVER


def spend(grants: Sequence[Grant], *, balance_nano: int) -> list[Grant]:
    """Take off the grants, in the order they are spent, what their account has less than they say was left.

    Returns them in that order; their rests then add up to the balance. What the account has beyond its grants (usage
    that was reversed) belongs to none of them and never expires.
    """
    spent = max(0, sum(grant.rest_nano for grant in grants) - balance_nano)
    settled = []
    for grant in in_order(grants):
        taken = min(spent, grant.rest_nano)
        spent -= taken
        settled.append(replace(grant, rest_nano=grant.rest_nano - taken))
    return settled


def expire(grants: Sequence[Grant], *, free_nano: int, now: datetime) -> list[tuple[Grant, int]]:
    """Return each grant whose time is over with what may be taken of it now: its rest, as far as that is not held."""
    taken = []
    for grant in in_order(grants):
        if grant.expires_at is None or grant.expires_at > now:
            continue
        part = min(grant.rest_nano, free_nano)
        free_nano -= part
        if part:
            taken.append((grant, part))
    return taken
