"""Tell the owners of an organization what is unusual about one of its keys, once each."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from portal.accounts.models import AlertKind, ApiKey, KeyAlert, KeySighting, Membership, OrganizationState, Role
from portal.accounts.rules import unusual
from portal.accounts.rules.unusual import Place
from portal.notifications import services as notifications

_KEPT_ALERTS = 200
_WANTED = {
    AlertKind.NEW_NETWORK: "alerts_new_network",
    AlertKind.NEW_COUNTRY: "alerts_new_country",
    AlertKind.SPEND_SPIKE: "alerts_spend_spike",
}


def watch_sightings(*, now: datetime, limit: int = 500) -> int:
    """Judge the places that nobody has judged yet; return how many alerts were raised. Safe to run twice."""
    raised = 0
    rows = KeySighting.objects.filter(checked_at=None).order_by("pk").values_list("pk", flat=True)
    for sighting_id in rows[:limit]:
        with transaction.atomic():
            raised += _judge(sighting_id, now)
    return raised


def raise_alert(*, key: ApiKey, kind: AlertKind, subject: str, detail: Mapping[str, object], now: datetime) -> bool:
    """Keep the alert and write to the owners, unless it was told before or they want none; tell whether it was new."""
    organization = key.organization
    if not getattr(organization, _WANTED[kind]) or key.revoked_at or organization.state != OrganizationState.ACTIVE:
        return False
    with transaction.atomic():
        if KeyAlert.objects.filter(key=key).count() >= _KEPT_ALERTS:
            return False
        alert, is_new = KeyAlert.objects.get_or_create(
            key=key, kind=kind, subject=subject, defaults={"detail": dict(detail), "created_at": now}
        )
        if is_new:
            _tell_owners(alert, now)
    return is_new


def _judge(sighting_id: int, now: datetime) -> bool:
    rows = KeySighting.objects.select_for_update(of=("self",), skip_locked=True).filter(pk=sighting_id, checked_at=None)
    sighting = rows.select_related("key__organization").first()
    if sighting is None:
        return False
    others = KeySighting.objects.filter(key=sighting.key, first_seen_at__lte=sighting.first_seen_at)
    earlier = [Place(*row) for row in others.exclude(pk=sighting.pk).values_list("network", "country", "first_seen_at")]
    sighting.checked_at = now
    sighting.save(update_fields=["checked_at"])
    found = _unusual(Place(sighting.network, sighting.country, sighting.first_seen_at), earlier)
    if found is None:
        return False
    kind, subject = found
    detail = {"network": sighting.network, "country": sighting.country, "at": sighting.first_seen_at.isoformat()}
    return raise_alert(key=sighting.key, kind=kind, subject=subject, detail=detail, now=now)


def _unusual(place: Place, earlier: list[Place]) -> tuple[AlertKind, str] | None:
    """Return what is new; a new country is worth one alert, not another for its network."""
    if unusual.is_new_country(place, earlier=earlier):
        return AlertKind.NEW_COUNTRY, place.country
    if unusual.is_new_network(place, earlier=earlier):
        return AlertKind.NEW_NETWORK, place.network
    return None


def _tell_owners(alert: KeyAlert, now: datetime) -> None:
    key = alert.key
    owners = Membership.objects.filter(organization=key.organization, role=Role.OWNER).select_related("user")
    for membership in owners.order_by("pk"):
        notifications.send(
            key=f"key-alert:{alert.pk}:{membership.user.public_id}",
            to=membership.user.email,
            template=f"key_{alert.kind}",
            context={
                "organization": key.organization.name,
                "key": key.name,
                "key_id": key.public_id,
                "subject_of_alert": alert.subject,
                **alert.detail,
            },
            now=now,
        )
