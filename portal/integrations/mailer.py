"""The one door to e-mail. EMAIL_URL says where it goes: smtp://, smtps://, file:, console: or memory:."""

import smtplib

from django.conf import settings
from django.core.mail import EmailMultiAlternatives, get_connection


class MailNotSent(Exception):
    """The mail server did not take the message; trying later may help."""


def send(*, to: str, subject: str, text: str, html: str, message_id: str) -> None:
    """Hand one message to the mail server, within the timeout of the settings. Raises MailNotSent."""
    message = EmailMultiAlternatives(
        subject=" ".join(subject.split()),
        body=text,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[to],
        headers={"Message-ID": message_id},
        connection=get_connection(),
    )
    if html:
        message.attach_alternative(html, "text/html")
    try:
        message.send()
    except (OSError, smtplib.SMTPException) as error:
        raise MailNotSent(f"{type(error).__name__}: {error}") from error
