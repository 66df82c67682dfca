"""Notices low credit where it arises: when usage is booked. Nothing here is on a request's path."""

from collections.abc import Collection
from datetime import datetime

from portal.billing.selectors import low_credit
from portal.integrations import queue


def notice(*, organization_ids: Collection[int], now: datetime) -> None:
    """Queue a look at those of the organizations whose credit is low and who asked for something to be done."""
    if not organization_ids:
        return
    found = set(low_credit.wanting_auto_topup(now=now, only=organization_ids))
    found |= {standing.organization_id for standing in low_credit.to_judge(now=now, only=organization_ids)}
    for organization_id in sorted(found):
        queue.after_commit("billing.watch_credit", organization_id=organization_id)
