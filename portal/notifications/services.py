"""Write messages with the facts that cause them, and deliver them after commit."""

from datetime import datetime, timedelta
from email.utils import make_msgid

from django.db import transaction

from portal.integrations import mailer, queue
from portal.notifications.models import Message
from portal.notifications.rendering import render

MAX_TRIES = 8
_FIRST_WAIT = timedelta(seconds=30)


def send(*, key: str, to: str, template: str, context: dict[str, object], now: datetime) -> Message:
    """Write the message inside the caller's transaction; the same key is written and sent once."""
    message, is_new = Message.objects.get_or_create(
        key=key,
        defaults={"to": to, "template": template, "context": context, "created_at": now, "next_try_at": now},
    )
    if is_new:
        queue.after_commit("notifications.deliver_message", message_id=message.pk)
    return message


def deliver(*, message_id: int, now: datetime) -> bool:
    """Send the message unless it has left; tell whether it has now. A refusal is tried again, longer apart each time.

    The row stays locked meanwhile, so that two workers never send it both. A crash between the mail server's yes and
    the commit sends it twice: e-mail offers nothing better.
    """
    with transaction.atomic():
        message = Message.objects.select_for_update().get(pk=message_id)
        if message.next_try_at is None:
            return message.sent_at is not None
        rendered = render(message)
        try:
            mailer.send(
                to=message.to,
                subject=rendered.subject,
                text=rendered.text,
                html=rendered.html,
                message_id=make_msgid(idstring=f"message-{message.pk}"),
            )
        except mailer.MailNotSent as error:
            _note_failure(message, str(error), now)
            return False
        message.sent_at, message.next_try_at = now, None
        message.context, message.error = {}, ""
        message.tries += 1
        message.save()
    return True


def deliver_due(*, now: datetime) -> int:
    """Send every message whose next try has come; return how many left."""
    return sum(deliver(message_id=message_id, now=now) for message_id in due(now=now))


def due(*, now: datetime, limit: int = 100) -> list[int]:
    """Return the ids of messages whose next try has come, oldest first."""
    rows = Message.objects.filter(next_try_at__lte=now).order_by("next_try_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def _note_failure(message: Message, reason: str, now: datetime) -> None:
    message.tries += 1
    message.error = reason[:2000]
    message.next_try_at = now + _FIRST_WAIT * 2 ** (message.tries - 1) if message.tries < MAX_TRIES else None
    if message.next_try_at is None:
        message.context = {}
    message.save()
