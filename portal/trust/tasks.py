"""Periodic work of the trust room."""

from celery import shared_task

from portal.core import clock
from portal.trust.services import engine_audits, evidence, token_audits


@shared_task(name="trust.audit_usage", acks_late=True)
def audit_usage(**_: object) -> None:
    """Compare the new usage records' claims with our counts."""
    token_audits.audit_usage(now=clock.now())


@shared_task(name="trust.read_engines", acks_late=True)
def read_engines(**_: object) -> None:
    """Compare the nodes' claims with their engines' own counters."""
    engine_audits.read_engines(now=clock.now())


@shared_task(name="trust.forget_old_minutes", acks_late=True)
def forget_old_minutes(**_: object) -> None:
    """Delete old minutes of the engine audit."""
    engine_audits.forget_old_minutes(now=clock.now())


@shared_task(name="trust.forget_evidence", acks_late=True)
def forget_evidence(**_: object) -> None:
    """Delete evidence that is too old to matter."""
    evidence.forget(now=clock.now())


BEAT = {
    "trust.audit_usage": 5,
    "trust.read_engines": 60,
    "trust.forget_old_minutes": 3600,
    "trust.forget_evidence": 3600,
}
