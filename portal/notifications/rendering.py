"""Turns a message row into subject, text and HTML from `templates/emails/<name>.{subject.txt,txt,html}`."""

from dataclasses import dataclass

from django.conf import settings
from django.template import TemplateDoesNotExist
from django.template.loader import render_to_string

from portal.notifications.models import Message


@dataclass(frozen=True, slots=True)
class Rendered:
    """A message as it is sent; `html` may be empty."""

    subject: str
    text: str
    html: str


def render(message: Message) -> Rendered:
    """Render the message with the pool's name and public address at hand."""
    context = {**message.context, "pool": settings.POOL_NAME, "public_url": settings.PUBLIC_URL, "to": message.to}
    return Rendered(
        subject=render_to_string(f"emails/{message.template}.subject.txt", context).strip(),
        text=render_to_string(f"emails/{message.template}.txt", context),
        html=_html(message.template, context),
    )


def _html(name: str, context: dict[str, object]) -> str:
    try:
        return render_to_string(f"emails/{name}.html", context)
    except TemplateDoesNotExist:
        return ""
