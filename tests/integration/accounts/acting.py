"""What the tests of this room share: an actor, a key made by the service, and what was announced."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import Organization
from portal.accounts.rules.key_terms import KeyTerms
from portal.accounts.rules.terms import Budget
from portal.accounts.services import keys
from portal.audit.services import Actor

ACTOR = Actor(public_id="user_test", address="203.0.113.9")
TERMS = KeyTerms(name="staging", node_classes=("contracted", "house"), budget=Budget(25_000_000_000))


def create(organization: Organization, *, now: datetime, **changes: Any) -> keys.CreatedKey:
    """Create a key by the service."""
    return keys.create_key(
        organization=organization, terms=replace(TERMS, **changes), created_by=None, actor=ACTOR, now=now
    )


@contextmanager
def announcements() -> Iterator[list[str]]:
    """Collect what is notified with the transaction, e.g. `keys:k7f3…`."""
    heard: list[str] = []
    with CaptureQueriesContext(connection) as queries:
        yield heard
    heard += re.findall(r"pg_notify\('poolhouse_changes', '([^']*)'\)", " ".join(q["sql"] for q in queries))
