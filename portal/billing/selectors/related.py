"""Who is related to whom: for the poster in one query a run, for the search, and for the operator's pages."""

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import Q, QuerySet, Sum

from portal.accounts.models import Organization
from portal.billing.models import PartyFact, RelatedPair
from portal.billing.rules.parties import Bond
from portal.metering.models import UsageHour
from portal.nodes.models import Node
from portal.providers.models import Provider

Pair = tuple[int, int]
FLOW_LOOKS_BACK = timedelta(days=30)
# Behind one address of a carrier there may be thousands; beyond this many it says nothing about any two.
MOST_AT_AN_ADDRESS = 20

_BONDS = """
    SELECT low_id, high_id, is_related FROM billing_relatedpair
    WHERE (is_related OR (ruling = '' AND found = 'suspected'))
        AND low_id = ANY(%(all)s) AND high_id = ANY(%(all)s)
    UNION
    SELECT least(one.organization_id, other.organization_id), greatest(one.organization_id, other.organization_id), true
    FROM accounts_membership one JOIN accounts_membership other ON other.user_id = one.user_id
    WHERE one.organization_id = ANY(%(customers)s) AND other.organization_id = ANY(%(earners)s)
        AND one.organization_id <> other.organization_id
        AND NOT EXISTS (SELECT 1 FROM billing_relatedpair ruled WHERE ruled.ruling = 'unrelated'
            AND ruled.low_id = least(one.organization_id, other.organization_id)
            AND ruled.high_id = greatest(one.organization_id, other.organization_id))
"""


def ordered(one: int, other: int) -> Pair:
    """Return the two ids, the lower first, as pairs are kept."""
    return (one, other) if one < other else (other, one)


def bonds_among(*, customers: Collection[int], earners: Collection[int]) -> dict[Pair, Bond]:
    """Return what is known of these organizations (ids): pairs that were found, and whoever shares a person now."""
    found: dict[Pair, Bond] = {}
    with connection.cursor() as cursor:
        cursor.execute(_BONDS, {"all": [*customers, *earners], "customers": list(customers), "earners": list(earners)})
        for low, high, is_related in cursor.fetchall():
            bond = Bond.RELATED if is_related else Bond.LINKED
            found[low, high] = max(bond, found.get((low, high), Bond.NONE))
    return found


def sharing(*, organization: Organization, kind: str, digest: str) -> list[Organization]:
    """Return others that were seen with the same fact where one of the two earns; none where too many share it."""
    rows = PartyFact.objects.filter(kind=kind, digest=digest).exclude(organization=organization)
    found = [fact.organization for fact in rows.select_related("organization").order_by("pk")[: MOST_AT_AN_ADDRESS + 1]]
    if len(found) > MOST_AT_AN_ADDRESS:
        return []
    return [other for other in found if organization.is_provider or other.is_provider]


def shared_kinds(*, pair: Pair, since: datetime) -> set[str]:
    """Return the kinds of facts that both have: addresses only if both were seen there since then."""
    low, high = pair
    recent = ~Q(kind="address") | Q(last_seen_at__gt=since)
    facts = PartyFact.objects.filter(recent, organization__in=pair)
    seen: dict[tuple[str, str], set[int]] = {}
    for organization_id, kind, digest in facts.values_list("organization_id", "kind", "digest"):
        seen.setdefault((kind, digest), set()).add(organization_id)
    return {kind for (kind, _), owners in seen.items() if owners == {low, high}}


def spent(*, customer_id: int, since: datetime, provider_id: int | None = None) -> int:
    """Return what the customer was charged since then (nano), by one provider or by all."""
    rows = UsageHour.objects.filter(organization_id=customer_id, hour__gte=since)
    if provider_id is not None:
        rows = rows.filter(provider_id=provider_id)
    return int(rows.aggregate(sum=Sum("charge_nano", default=0))["sum"])


def providers_of(*, organization_ids: Iterable[int]) -> dict[int, Provider]:
    """Return each organization's provider profile, where it has one."""
    return {row.organization_id: row for row in Provider.objects.filter(organization__in=set(organization_ids))}


def node_addresses() -> list[tuple[int, str]]:
    """Return where each provider's nodes were seen last: (organization id, address)."""
    rows = Node.objects.exclude(last_address=None).order_by("pk")
    found = rows.values_list("provider__organization_id", "last_address").distinct().order_by()
    return [(organization_id, str(address)) for organization_id, address in found]


def unsettled_pairs(*, limit: int = 500) -> list[Pair]:
    """Return pairs that are only suspected, the ones looked at longest ago first."""
    rows = RelatedPair.objects.filter(found="suspected", ruling="").order_by("changed_at", "pk")
    return list(rows.values_list("low_id", "high_id")[:limit])


def pairs(*, organization: Organization | None = None, limit: int = 200) -> QuerySet[RelatedPair]:
    """Return pairs, those that need a look first, of one organization or of all."""
    rows = RelatedPair.objects.select_related("low", "high")
    if organization is not None:
        rows = rows.filter(Q(low=organization) | Q(high=organization))
    return rows.order_by("ruling", "is_related", "-changed_at", "-pk")[:limit]
