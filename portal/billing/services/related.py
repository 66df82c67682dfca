"""Related parties: facts are noted as digests, pairs are found from them, and an operator may overrule what was found.

A found pair keeps back at once what is still maturing between the two, so that an operator has time to claw it back.
"""

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network

from django.conf import settings
from django.db import connection, transaction
from django.utils.crypto import salted_hmac

from portal.accounts.models import Membership, Organization, User
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.models import RelatedPair, Ruling
from portal.billing.rules import related as rules
from portal.billing.rules.related import FactKind, Found
from portal.billing.selectors import related as selectors
from portal.billing.selectors.related import Pair
from portal.billing.services import earning_delay
from portal.core.errors import InvalidValue, NotFound

ADDRESSES_COUNT_FOR = timedelta(days=90)
_SITE_BITS = 64

_UPSERT = """
    INSERT INTO billing_partyfact (organization_id, kind, digest, source, first_seen_at, last_seen_at)
    SELECT organization_id, %(kind)s, digest, %(source)s, %(now)s, %(now)s
    FROM unnest(%(organizations)s::bigint[], %(digests)s::text[]) AS seen (organization_id, digest)
    ON CONFLICT (organization_id, kind, digest) DO UPDATE SET last_seen_at = excluded.last_seen_at
        WHERE billing_partyfact.last_seen_at < excluded.last_seen_at - interval '1 hour'
    RETURNING organization_id, digest, first_seen_at = %(now)s
"""


def digest_of(*, kind: str, value: str) -> str:
    """Return what stands for a fact: keyed for an address, which could be guessed; of IPv6 the site, not the host."""
    if kind == FactKind.ADDRESS:
        return salted_hmac("poolhouse.party.address", _site(value), algorithm="sha256").hexdigest()
    return hashlib.sha256(f"{kind}:{value}".encode()).hexdigest()


def note(*, organization: Organization, kind: str, value: str, source: str, now: datetime) -> None:
    """Note that a fact was seen of the organization, and look who shares it. An empty value notes nothing."""
    if value and not (kind == FactKind.ADDRESS and _says_nothing(value)):
        digest = digest_of(kind=kind, value=value)
        note_digests(seen=[(organization.pk, digest)], kind=kind, source=source, now=now)


def note_digests(*, seen: Iterable[tuple[int, str]], kind: str, source: str, now: datetime) -> None:
    """Note digests of organizations (ids), and look who shares those that are new."""
    rows = sorted(set(seen))
    if not rows:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _UPSERT,
            {
                "kind": kind,
                "source": source,
                "now": now,
                "organizations": [row[0] for row in rows],
                "digests": [row[1] for row in rows],
            },
        )
        fresh = [(organization_id, digest) for organization_id, digest, is_new in cursor.fetchall() if is_new]
    organizations = Organization.objects.in_bulk([organization_id for organization_id, _ in fresh])
    for organization_id, digest in fresh:
        for other in selectors.sharing(organization=organizations[organization_id], kind=kind, digest=digest):
            weigh(pair=selectors.ordered(organization_id, other.pk), now=now)


def note_sign_in(*, user: User, address: str | None, now: datetime) -> None:
    """Note where a person signed in from, for each organization that the person acts for."""
    for membership in Membership.objects.filter(user=user).select_related("organization").order_by("pk"):
        organization = membership.organization
        note(organization=organization, kind=FactKind.ADDRESS, value=address or "", source="sign_in", now=now)


def look(*, now: datetime) -> None:
    """Note persons and nodes' addresses anew and weigh again what is only suspected. Safe to run twice."""
    people = Membership.objects.order_by("pk").values_list("organization_id", "user__public_id")
    persons = [(row[0], digest_of(kind=FactKind.PERSON, value=row[1])) for row in people]
    note_digests(seen=persons, kind=FactKind.PERSON, source="membership", now=now)
    addresses = [
        (organization_id, digest_of(kind=FactKind.ADDRESS, value=address))
        for organization_id, address in selectors.node_addresses()
        if not _says_nothing(address)
    ]
    note_digests(seen=addresses, kind=FactKind.ADDRESS, source="node", now=now)
    for pair in selectors.unsettled_pairs():
        weigh(pair=pair, now=now)


def weigh(*, pair: Pair, now: datetime) -> RelatedPair | None:
    """Find out what the pair has in common now; what counted once stays, since facts do not become untrue."""
    kinds = selectors.shared_kinds(pair=pair, since=now - ADDRESSES_COUNT_FOR)
    if FactKind.ADDRESS in kinds and _has_flow(pair, now):
        kinds.add(FactKind.FLOW)
    if not kinds:
        return None
    with transaction.atomic():
        RelatedPair.objects.get_or_create(
            low_id=pair[0], high_id=pair[1], defaults={"found_at": now, "changed_at": now}
        )
        row = (
            RelatedPair.objects.select_for_update(of=("self",))
            .select_related("low", "high")
            .get(low_id=pair[0], high_id=pair[1])
        )
        known = set(row.kinds)
        row.kinds, row.changed_at = sorted(known | kinds), now
        row.found = rules.weigh(row.kinds)
        _settle(row, actor=SYSTEM_ACTOR, now=now, has_news=not kinds <= known)
    return row


def rule(*, pair_id: int, ruling: str, note: str, actor: Actor, now: datetime) -> RelatedPair:
    """Say by hand whether two are one party, or let the facts speak again. Raises NotFound, InvalidValue."""
    if ruling and ruling not in Ruling.values:
        raise InvalidValue(f"use one of {', '.join(Ruling.values)}, or nothing", param="ruling")
    if not note.strip():
        raise InvalidValue("say why; it is kept in the audit log", param="note")
    with transaction.atomic():
        rows = RelatedPair.objects.select_for_update(of=("self",)).select_related("low", "high")
        row = rows.filter(pk=pair_id).first()
        if row is None:
            raise NotFound("there is no such pair")
        row.ruling, row.ruling_note, row.changed_at = ruling, note.strip()[:240], now
        row.ruled_by = actor.public_id if ruling else ""
        _settle(row, actor=actor, now=now, has_news=True)
    return row


def _settle(row: RelatedPair, *, actor: Actor, now: datetime, has_news: bool) -> None:
    """Write what counts, tell it, and keep back what is maturing between the two."""
    before = row.is_related
    row.is_related = row.ruling == Ruling.RELATED or (not row.ruling and row.found == Found.RELATED)
    row.save()
    if row.is_related and not before:
        _keep_back(row, now)
    if not has_news and row.is_related == before:
        return
    audit.record(
        actor=actor,
        event="related.found" if not row.ruling else "related.ruled",
        subject=f"{row.low.public_id}/{row.high.public_id}"[:96],
        organization=row.low.public_id,
        detail={
            "kinds": row.kinds,
            "found": row.found,
            "ruling": row.ruling,
            "note": row.ruling_note,
            "is_related": row.is_related,
        },
        now=now,
    )


def _keep_back(row: RelatedPair, now: datetime) -> None:
    until = now + timedelta(days=settings.DISPUTE_HOLD_DAYS)
    earners = selectors.providers_of(organization_ids=[row.low_id, row.high_id])
    for customer, earner in ((row.low, row.high), (row.high, row.low)):
        provider = earners.get(earner.pk)
        if provider is not None:
            earning_delay.delay(organization=customer.public_id, until=until, provider=provider.public_id)


def _has_flow(pair: Pair, now: datetime) -> bool:
    since = now - selectors.FLOW_LOOKS_BACK
    earners = selectors.providers_of(organization_ids=pair)
    return any(
        rules.is_flow(
            spent_with_nano=selectors.spent(customer_id=customer, since=since, provider_id=earners[earner].pk),
            spent_nano=selectors.spent(customer_id=customer, since=since),
        )
        for customer, earner in (pair, pair[::-1])
        if earner in earners
    )


def _site(address: str) -> str:
    found = ip_address(address)
    if found.version == 4:  # noqa: PLR2004  the protocol's number
        return str(found)
    mapped = found.ipv4_mapped
    return str(mapped) if mapped else str(ip_network((found, _SITE_BITS), strict=False))


def _says_nothing(address: str) -> bool:
    """Tell whether the address is of one machine or one house network: every pool behind a proxy would share it."""
    found = ip_address(address)
    return not found.is_global
