"""The database's side of leases: credit of an organization, and one window of a budget."""

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from django.db import transaction

from portal.billing.rules import leasing
from portal.billing.rules.leasing import Ask
from portal.billing.services import budgets, leases
from portal.billing.services.budgets import GrantedBudget
from portal.billing.services.leases import Granted
from portal.core import clock
from portal.core.errors import DomainError
from portal.gateway import refusals
from portal.gateway.contracts import BudgetTerms
from portal.gateway.lease_pool import Fetched
from portal.gateway.purse import Standing
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads
from portal.integrations import bus

# Long: a call that changes a lease is never left behind while it may still happen. Who waits has a deadline of his own.
CALL_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class CreditSource:
    """Leases on the credit of one organization."""

    organization_id: int
    spool: Spool
    threads: DatabaseThreads

    async def fetch(self, ask: Ask) -> tuple[list[Fetched], Standing]:
        """Open or enlarge leases. Raises django.db.Error, TimeoutError."""
        now = clock.now()
        granted = await self.threads.run(
            leases.grant,
            timeout_s=CALL_TIMEOUT_S,
            organization_id=self.organization_id,
            spool_id=await self.spool.row_id(self.threads, now=now),
            ask=ask,
            now=now,
        )
        fetched = [Fetched(row.lease_id, row.granted, row.expires_at.timestamp()) for row in granted.leases]
        refusal = partial(_credit_refusal, granted)
        return fetched, Standing(granted.balance_nano, refusal)

    async def shrink(self, lease_id: int, keep_nano: int) -> int:
        """Return what lies beyond `keep_nano`. Raises django.db.Error, TimeoutError."""
        return await self.threads.run(
            leases.LIFE.shrink, timeout_s=CALL_TIMEOUT_S, lease_id=lease_id, keep_nano=keep_nano
        )

    async def call_in(self) -> None:
        """Ask all processes to return what lies idle. Raises django.db.Error, TimeoutError."""
        await self.threads.run(_announce, subject=str(self.organization_id))


@dataclass(frozen=True, slots=True)
class BudgetSource:
    """Leases on one window of one budget: a purse never mixes two windows, however late its calls run."""

    terms: BudgetTerms
    window_at: datetime
    spool: Spool
    threads: DatabaseThreads

    async def fetch(self, ask: Ask) -> tuple[list[Fetched], Standing]:
        """Open or enlarge the lease. Raises django.db.Error, TimeoutError."""
        now = clock.now()
        granted = await self.threads.run(
            budgets.grant,
            timeout_s=CALL_TIMEOUT_S,
            terms=self.terms,
            spool_id=await self.spool.row_id(self.threads, now=now),
            ask=ask,
            window_at=self.window_at,
            now=now,
        )
        fetched = []
        if granted.lease_id is not None:
            fetched.append(Fetched(granted.lease_id, granted.granted, granted.expires_at.timestamp()))
        refusal = partial(_budget_refusal, self.terms, granted)
        return fetched, Standing(granted.cap_nano - granted.used_nano, refusal)

    async def shrink(self, lease_id: int, keep_nano: int) -> int:
        """Return what lies beyond `keep_nano`. Raises django.db.Error, TimeoutError."""
        return await self.threads.run(
            budgets.LIFE.shrink, timeout_s=CALL_TIMEOUT_S, lease_id=lease_id, keep_nano=keep_nano
        )

    async def call_in(self) -> None:
        """Ask all processes to return what lies idle. Raises django.db.Error, TimeoutError."""
        await self.threads.run(_announce, subject=leasing.budget_subject(self.terms.owner))


def _announce(*, subject: str) -> None:
    with transaction.atomic():
        bus.announce("leases", subject)


def _credit_refusal(granted: Granted, nano: int) -> DomainError:
    refuse = refusals.credit_exhausted if granted.balance_nano < nano else refusals.credit_held
    return refuse(nano=nano, balance=granted.balance_nano, held=granted.held_nano)


def _budget_refusal(terms: BudgetTerms, granted: GrantedBudget, nano: int) -> DomainError:
    return refusals.budget_exhausted(
        terms=terms,
        nano=nano,
        cap=granted.cap_nano,
        used=granted.used_nano,
        held=granted.leased_nano,
        resets_at=granted.resets_at,
    )
