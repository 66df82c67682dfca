"""Rotation: the same key with another secret; the old one works until its grace is over."""

from datetime import timedelta

import pytest

from portal.accounts.models import ApiKey, RetiredSecret
from portal.accounts.rules import key_text
from portal.accounts.services import keys, rotation
from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue, NotFound
from portal.gateway.snapshot_loader import SnapshotLoader
from tests.integration.accounts.acting import ACTOR, announcements, create
from tests.world import World

DAY = timedelta(days=1)


def rotate(organization, key, now, grace=DAY):
    return rotation.rotate_key(organization=organization, public_id=key.public_id, grace=grace, actor=ACTOR, now=now)


def entry_of(text: str, now):
    return SnapshotLoader().load(now=now).keys.get(bytes.fromhex(key_text.digest(text)))


def test_both_secrets_are_one_key_until_the_grace_is_over(world: World, now):
    organization = world.customer.organization
    old = create(organization, now=now)

    with announcements() as heard:
        new = rotate(organization, old.key, now)

    assert new.text != old.text
    assert new.text.startswith(f"sk-pool-{old.key.public_id}-")
    fresh, replaced = entry_of(new.text, now), entry_of(old.text, now)
    assert (fresh.id, fresh.public_id, fresh.limits, fresh.budgets) == (
        replaced.id,
        replaced.public_id,
        replaced.limits,
        replaced.budgets,
    )
    assert (fresh.is_replaced, fresh.expires_at) == (False, None)
    assert (replaced.is_replaced, replaced.expires_at) == (True, (now + DAY).timestamp())
    assert heard == [f"keys:{old.key.public_id}"]


def test_rotation_is_audited_without_a_secret(world: World, now):
    old = create(world.customer.organization, now=now)

    new = rotate(world.customer.organization, old.key, now)

    event = AuditEvent.objects.get(event="api_key.rotated")
    assert event.detail == {"name": "staging", "grace_until": (now + DAY).isoformat()}
    assert new.text.rsplit("-", 2)[1] not in str(event.detail)
    assert new.text not in str(vars(ApiKey.objects.get()))


def test_a_key_that_expires_before_its_grace_ends_both(world: World, now):
    old = create(world.customer.organization, now=now, expires_at=now + timedelta(hours=1))

    rotate(world.customer.organization, old.key, now)

    assert entry_of(old.text, now).expires_at == (now + timedelta(hours=1)).timestamp()


def test_another_rotation_ends_the_first_secret_at_once(world: World, now):
    organization = world.customer.organization
    first = create(organization, now=now)
    second = rotate(organization, first.key, now)

    later = now + timedelta(hours=1)
    rotate(organization, first.key, later)

    assert entry_of(first.text, later).expires_at == later.timestamp()
    assert entry_of(second.text, later).expires_at == (later + DAY).timestamp()


def test_no_grace_ends_the_old_secret_now(world: World, now):
    old = create(world.customer.organization, now=now)

    rotate(world.customer.organization, old.key, now, grace=timedelta())

    assert entry_of(old.text, now).expires_at == now.timestamp()


def test_a_revocation_ends_both_secrets(world: World, now):
    organization = world.customer.organization
    old = create(organization, now=now)
    new = rotate(organization, old.key, now)

    keys.revoke_key(organization=organization, public_id=old.key.public_id, actor=ACTOR, now=now)

    assert [entry_of(text, now).is_revoked for text in (old.text, new.text)] == [True, True]
    with pytest.raises(keys.KeyAlreadyRevoked):
        rotate(organization, old.key, now)


def test_the_grace_can_be_ended_once(world: World, now):
    organization = world.customer.organization
    old = create(organization, now=now)
    rotate(organization, old.key, now)
    later = now + timedelta(hours=1)

    with announcements() as heard:
        rotation.end_grace(organization=organization, public_id=old.key.public_id, actor=ACTOR, now=later)

    assert entry_of(old.text, later).expires_at == later.timestamp()
    assert heard == [f"keys:{old.key.public_id}"]
    with pytest.raises(rotation.NoOldSecret):
        rotation.end_grace(organization=organization, public_id=old.key.public_id, actor=ACTOR, now=later)


def test_a_loader_that_runs_hears_of_each_step(world: World, now):
    organization = world.customer.organization
    old = create(organization, now=now)
    loader, digest = SnapshotLoader(), bytes.fromhex(key_text.digest(old.text))
    assert not loader.load(now=now).keys[digest].is_replaced

    rotate(organization, old.key, now)
    assert loader.load(now=now).keys[digest].expires_at == (now + DAY).timestamp()

    rotation.end_grace(organization=organization, public_id=old.key.public_id, actor=ACTOR, now=now)
    assert loader.load(now=now).keys[digest].expires_at == now.timestamp()


@pytest.mark.parametrize("grace", [timedelta(days=31), timedelta(seconds=-1)])
def test_a_grace_has_bounds(world: World, now, grace):
    old = create(world.customer.organization, now=now)

    with pytest.raises(InvalidValue):
        rotate(world.customer.organization, old.key, now, grace=grace)

    assert ApiKey.objects.get().digest == key_text.digest(old.text)


def test_a_stranger_rotates_nothing(world: World, now):
    old = create(world.customer.organization, now=now)

    with pytest.raises(NotFound):
        rotate(world.other, old.key, now)

    assert not RetiredSecret.objects.exists()


def test_few_old_secrets_are_remembered(world: World, now):
    organization = world.customer.organization
    key = create(organization, now=now).key

    for hour in range(8):
        rotate(organization, key, now + timedelta(hours=hour))

    assert RetiredSecret.objects.filter(key=key).count() == 5
