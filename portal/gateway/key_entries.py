"""Turns key rows into the snapshot's entries. What many keys have alike is one object, so that they stay small."""

from collections.abc import Hashable
from dataclasses import replace
from ipaddress import ip_network
from typing import Final, TypeVar, cast

from portal.accounts.rules.terms import NO_LIMITS as NONE_SET
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.selectors.for_gateway import KeyRow, OwnerRow
from portal.gateway.contracts import NO_LIMITS, OPEN_POLICY, BudgetTerms, KeyEntry, KeyPolicy, Limits

T = TypeVar("T", bound=Hashable)
_KEPT: Final = 20_000


class KeyEntries:
    """Makes entries and remembers the parts that others may share."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, Hashable] = {}

    def of(self, row: KeyRow, organization: OwnerRow, project: OwnerRow | None) -> dict[bytes, KeyEntry]:
        """Return the key's entry by the digest of each of its secrets, those that rotation replaced among them."""
        entry = self._entry(row, organization, project)
        found = {bytes.fromhex(row.digest): entry}
        for digest, works_until in row.retired:
            found[bytes.fromhex(digest)] = _replaced(entry, works_until.timestamp())
        return found

    def _entry(self, row: KeyRow, organization: OwnerRow, project: OwnerRow | None) -> KeyEntry:
        return KeyEntry(
            id=row.id,
            public_id=row.public_id,
            organization_id=organization.id,
            organization=organization.public_id,
            is_organization_active=organization.is_active,
            stopped_for=self._shared(organization.stopped_for),
            node_classes=self._shared(frozenset(row.node_classes)),
            tools_on_any_class=row.tools_on_any_class,
            expires_at=row.expires_at.timestamp() if row.expires_at else None,
            is_revoked=row.revoked_at is not None,
            policy=self._policy(row),
            limits=self._limits(row.limits),
            project=project.public_id if project else None,
            project_limits=self._limits(project.limits) if project else NO_LIMITS,
            organization_limits=self._limits(organization.limits),
            budgets=self._budgets(row, organization, project),
        )

    def _policy(self, row: KeyRow) -> KeyPolicy:
        policy = KeyPolicy(
            models=None if row.allowed_models is None else frozenset(row.allowed_models),
            networks=tuple(ip_network(text) for text in row.networks),
            countries=None if row.countries is None else frozenset(row.countries),
            allows_tools=row.allows_tools,
            is_private_only=row.is_private_only,
        )
        return OPEN_POLICY if policy == OPEN_POLICY else self._shared(policy)

    def _limits(self, terms: LimitTerms) -> Limits:
        if terms == NONE_SET:
            return NO_LIMITS
        return self._shared(Limits(terms.requests_per_minute, terms.tokens_per_minute, terms.parallel_requests))

    def _budgets(self, row: KeyRow, organization: OwnerRow, project: OwnerRow | None) -> tuple[BudgetTerms, ...]:
        zone = self._shared(organization.zone)
        own = _budget(row.public_id, row.budget, self._shared(row.budget.period), zone)
        shared = [
            _budget(owner.public_id, owner.budget, owner.budget.period, zone)
            for owner in (project, organization)
            if owner
        ]
        return own + tuple(self._shared(terms) for found in shared for terms in found)

    def _shared(self, value: T) -> T:
        """Return an equal object that was seen before. Forgetting costs memory alone, never truth."""
        if len(self._kept) > _KEPT:
            self._kept.clear()
        return cast("T", self._kept.setdefault((type(value), value), value))


def _budget(owner: str, budget: Budget, period: str, zone: str) -> tuple[BudgetTerms, ...]:
    if budget.cap_nano is None:
        return ()
    return (BudgetTerms(owner=owner, period=period, cap_nano=budget.cap_nano, zone=zone),)


def _replaced(entry: KeyEntry, works_until: float) -> KeyEntry:
    ends_at = works_until if entry.expires_at is None else min(works_until, entry.expires_at)
    return replace(entry, expires_at=ends_at, is_replaced=True)
