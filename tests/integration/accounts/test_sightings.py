"""Where keys are used: rows that can be written twice, are bounded, and become at most one alert each."""

from datetime import timedelta

import pytest

from portal.accounts.models import AlertKind, KeyAlert, KeySighting, Organization
from portal.accounts.services import key_alerts, sightings
from portal.accounts.services.sightings import MAX_PLACES, Seen
from portal.notifications.models import Message
from tests.factories.accounts import ApiKeyFactory
from tests.world import World

HOME, AWAY = "203.0.113.0/24", "198.51.100.0/24"
DAY = timedelta(days=1)


@pytest.fixture
def key(world: World):
    return ApiKeyFactory(organization=world.customer.organization, name="production")


def see(key, network, at, *, country="", is_old_secret=False):
    sightings.record(seen=[Seen(key.pk, network, country, at, is_old_secret)])


def alerts():
    return [(row.kind, row.subject) for row in KeyAlert.objects.order_by("pk")]


def test_the_same_place_is_one_row_however_often_it_is_written(key, now):
    batch = [Seen(key.pk, HOME, "DE", now), Seen(key.pk, HOME, "DE", now + DAY)]

    sightings.record(seen=batch)
    sightings.record(seen=batch)
    see(key, HOME, now - DAY, country="DE")

    row = KeySighting.objects.get()
    assert (row.first_seen_at, row.last_seen_at, row.old_secret_seen_at) == (now + DAY, now + DAY, None)


def test_the_use_of_an_old_secret_is_remembered(key, now):
    see(key, HOME, now)
    see(key, HOME, now + DAY, is_old_secret=True)

    assert KeySighting.objects.get().old_secret_seen_at == now + DAY


def test_a_key_used_from_everywhere_keeps_a_bounded_number_of_places(key, now):
    KeySighting.objects.bulk_create(
        KeySighting(key=key, network=f"10.{n // 256}.{n % 256}.0/24", first_seen_at=now, last_seen_at=now)
        for n in range(MAX_PLACES)
    )

    see(key, HOME, now + DAY)
    see(key, "10.0.0.0/24", now + DAY)

    assert KeySighting.objects.count() == MAX_PLACES
    assert KeySighting.objects.get(network="10.0.0.0/24").last_seen_at == now + DAY


def test_a_key_that_is_gone_from_the_table_breaks_no_batch(key, now):
    sightings.record(seen=[Seen(key.pk + 1_000, HOME, "", now), Seen(key.pk, HOME, "", now)])

    assert KeySighting.objects.get().key == key


def test_the_first_day_is_the_baseline(key, now):
    see(key, HOME, now)
    see(key, AWAY, now + timedelta(hours=23))

    key_alerts.watch_sightings(now=now + DAY)

    assert alerts() == []
    assert not KeySighting.objects.filter(checked_at=None).exists()


def test_a_new_network_is_told_to_the_owners_once(world: World, key, now):
    see(key, HOME, now)
    see(key, AWAY, now + 2 * DAY)

    assert key_alerts.watch_sightings(now=now + 2 * DAY) == 1
    see(key, AWAY, now + 3 * DAY)
    assert key_alerts.watch_sightings(now=now + 3 * DAY) == 0

    assert alerts() == [(AlertKind.NEW_NETWORK, AWAY)]
    message = Message.objects.get()
    assert (message.to, message.template) == (world.customer.owner.email, "key_new_network")
    assert message.context["network"] == AWAY


def test_a_new_country_is_one_alert_and_none_for_its_network(key, now):
    see(key, HOME, now, country="DE")
    see(key, AWAY, now + 2 * DAY, country="BR")

    key_alerts.watch_sightings(now=now + 3 * DAY)

    assert alerts() == [(AlertKind.NEW_COUNTRY, "BR")]


def test_a_country_that_becomes_known_later_says_nothing(key, now):
    see(key, HOME, now)
    see(key, HOME, now + 2 * DAY, country="DE")

    key_alerts.watch_sightings(now=now + 3 * DAY)

    assert alerts() == []


def test_a_key_that_roams_has_no_unusual_networks(key, now):
    for number in range(20):
        see(key, f"192.0.{number}.0/24", now)
    see(key, AWAY, now + 2 * DAY)

    key_alerts.watch_sightings(now=now + 3 * DAY)

    assert alerts() == []


@pytest.mark.parametrize("switch", ["alerts_new_network", "alerts_new_country"])
def test_what_the_organization_turned_off_is_not_told(key, now, switch):
    Organization.objects.filter(pk=key.organization_id).update(**{switch: False})
    country = "" if switch == "alerts_new_network" else "BR"
    see(key, HOME, now, country="DE")
    see(key, AWAY, now + 2 * DAY, country=country)

    assert key_alerts.watch_sightings(now=now + 3 * DAY) == 0

    assert alerts() == []
    assert not Message.objects.exists()


def test_a_revoked_key_alarms_nobody(key, now):
    see(key, HOME, now)
    see(key, AWAY, now + 2 * DAY)
    key.revoked_at = now
    key.save()

    assert key_alerts.watch_sightings(now=now + 3 * DAY) == 0
