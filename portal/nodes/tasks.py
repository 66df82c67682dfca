"""Background work of the nodes' room."""

from celery import shared_task

from portal.core import clock
from portal.nodes.services import check_rounds, sessions, silence


@shared_task(name="nodes.sweep_silent", acks_late=True)
def sweep_silent(**_: object) -> None:
    """Move nodes offline that gave no sign of life."""
    silence.sweep_silent(now=clock.now())


@shared_task(name="nodes.forget_challenges", acks_late=True)
def forget_challenges(**_: object) -> None:
    """Delete challenges nobody can answer any more."""
    sessions.forget_expired_challenges(now=clock.now())


@shared_task(name="nodes.ask_for_checks", acks_late=True)
def ask_for_checks(**_: object) -> None:
    """Ask nodes whose checks are due, close rounds that were never finished, forget old ones."""
    check_rounds.expire(now=clock.now())
    check_rounds.ask_due(now=clock.now())
    check_rounds.forget(now=clock.now())


BEAT = {"nodes.ask_for_checks": 300, "nodes.sweep_silent": 15, "nodes.forget_challenges": 300}
