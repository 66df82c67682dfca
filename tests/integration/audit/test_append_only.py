"""The audit log is added to, never edited."""

import pytest
from django.db import IntegrityError, connection, transaction

from portal.audit import services
from portal.audit.models import AuditEvent
from portal.audit.selectors import events_of
from portal.audit.services import Actor

pytestmark = pytest.mark.django_db


def record(now, *, organization: str = "org_a") -> AuditEvent:
    return services.record(
        actor=Actor(public_id="user_a", address="203.0.113.9"),
        event="thing.done",
        subject="thing_1",
        organization=organization,
        now=now,
    )


@pytest.mark.parametrize(
    "statement",
    ["UPDATE audit_auditevent SET actor = 'user_b'", "DELETE FROM audit_auditevent"],
)
def test_the_database_refuses_to_change_it(now, statement: str):
    record(now)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert AuditEvent.objects.get().actor == "user_a"


def test_events_are_read_by_organization_newest_first(now):
    first, _, second = record(now), record(now, organization="org_b"), record(now)

    assert list(events_of(organization="org_a")) == [second, first]
