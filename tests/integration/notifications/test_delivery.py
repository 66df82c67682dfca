"""Messages: written once with their cause, sent once after commit, tried again when the mail server refuses."""

from datetime import timedelta

import pytest
from django.core import mail
from django.core.mail.backends import locmem

from portal.notifications import services
from portal.notifications.models import Message

pytestmark = pytest.mark.django_db

CONTEXT = {"token": "secret", "organization": "Bolt & Nut", "inviter": "Ana", "role": "Member"}


def write(now, key="invitation:1") -> Message:
    return services.send(key=key, to="bo@example.com", template="invitation", context=CONTEXT, now=now)


def test_a_message_is_written_once_for_its_key(now):
    first = write(now)
    second = write(now + timedelta(hours=1))

    assert first.pk == second.pk
    assert Message.objects.get().created_at == now


def test_it_is_queued_with_its_cause(now, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks() as queued:
        write(now)
        write(now)

    assert len(queued) == 1


def test_it_is_sent_once_and_its_secret_forgotten(now, settings):
    settings.POOL_NAME = "Pool & Co"
    message = write(now)

    assert services.deliver(message_id=message.pk, now=now)
    assert services.deliver(message_id=message.pk, now=now)

    sent = mail.outbox[0]
    assert len(mail.outbox) == 1
    assert sent.to == ["bo@example.com"]
    assert sent.subject == "Join Bolt & Nut on Pool & Co"
    assert "/accounts/invitations/secret/" in sent.body
    message.refresh_from_db()
    assert (message.sent_at, message.next_try_at, message.context) == (now, None, {})


class Refusing(locmem.EmailBackend):
    """A mail server that takes nothing."""

    def send_messages(self, messages):
        raise ConnectionRefusedError("nobody listens")


def test_a_refusal_is_tried_again_later_and_later(now, settings):
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    message = write(now)

    assert not services.deliver(message_id=message.pk, now=now)
    message.refresh_from_db()
    first = message.next_try_at
    assert not services.deliver(message_id=message.pk, now=first)
    message.refresh_from_db()

    assert (first - now, message.next_try_at - first) == (timedelta(seconds=30), timedelta(seconds=60))
    assert message.error == "ConnectionRefusedError: nobody listens"
    assert message.context == CONTEXT


def test_it_is_given_up_in_the_end(now, settings):
    settings.EMAIL_BACKEND = f"{__name__}.Refusing"
    message = write(now)

    for _ in range(services.MAX_TRIES):
        services.deliver(message_id=message.pk, now=now)

    message.refresh_from_db()
    assert (message.next_try_at, message.sent_at, message.context) == (None, None, {})
    assert services.due(now=now + timedelta(days=30)) == []
    assert not services.deliver(message_id=message.pk, now=now)


def test_what_waits_is_sent_by_the_sweep(now, settings):
    write(now)
    write(now, key="invitation:2")

    assert services.deliver_due(now=now - timedelta(seconds=1)) == 0
    assert services.deliver_due(now=now) == 2
    assert services.deliver_due(now=now) == 0
    assert len(mail.outbox) == 2
