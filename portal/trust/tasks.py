"""Periodic work of the trust room."""

from celery import shared_task

from portal.core import clock
from portal.trust.services import token_audits


@shared_task(name="trust.audit_usage", acks_late=True)
def audit_usage(**_: object) -> None:
    """Compare the new usage records' claims with our counts."""
    token_audits.audit_usage(now=clock.now())


BEAT = {"trust.audit_usage": 5}
