"""Low credit: one e-mail a crossing, noticed where usage is booked, and by a sweeper."""

from datetime import timedelta

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import CreditAlert, SpendDay
from portal.billing.services import credit_alerts, credit_watch, posting, topups
from portal.core.errors import InvalidValue
from portal.notifications.models import Message
from portal.notifications.rendering import render
from tests.factories.accounts import MembershipFactory
from tests.factories.billing import Market, buy
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db

UNIT = 1_000_000_000


@pytest.fixture
def watching(world, now):
    """A customer with 20 who wants to hear below 10."""
    organization = world.customer.organization
    buy(organization, amount=20 * UNIT)
    credit_alerts.set_alert(organization=organization, threshold_nano=10 * UNIT, actor=SYSTEM_ACTOR, now=now)
    return organization


def test_one_crossing_is_one_message_to_each_owner_and_admin(world, watching, now):
    for step, minor in enumerate((999, 2, 100, 100)):
        saving.spend(watching, minor=minor, now=now, key=str(step))
        credit_alerts.judge_all(now=now + timedelta(minutes=step))

    rows = Message.objects.filter(template="credit_low").order_by("to")
    assert {row.to for row in rows} == {world.customer.owner.email, world.customer.admin.email}
    assert rows.count() == 2
    text = render(rows[0]).text
    assert "fallen to 9.99 USD, below the 10 USD" in text
    assert "it lasts: no spend in the last 7 days" in text


def test_who_pays_first_is_watched_at_a_fifth_of_it_and_who_chose_is_left_alone(shop, now):
    organization = saving.customer(shop, now=now, amount=1012)
    alert = CreditAlert.objects.get()
    assert (alert.organization_id, alert.is_on, alert.threshold_nano) == (organization.pk, True, 202 * saving.CENT)
    saving.spend(organization, minor=811, now=now, key="1")
    assert credit_alerts.judge_all(now=now) == 1
    assert saving.told(organization) == ["credit_low"]

    credit_alerts.set_alert(organization=organization, threshold_nano=None, actor=SYSTEM_ACTOR, now=now)
    topup = shop.start(organization, MembershipFactory().user, amount=5000, now=now, key="more")
    saving.pay(shop, topup)
    topups.fulfil(topup_id=topup.pk, now=now)

    assert CreditAlert.objects.get().is_on is False


def test_who_wants_no_message_gets_none_for_a_first_payment_either(shop, now):
    market = Market()
    credit_alerts.set_alert(organization=market.customer, threshold_nano=None, actor=SYSTEM_ACTOR, now=now)

    credit_alerts.begin(organization=market.customer, paid_minor=1000, currency="usd", now=now)

    assert not CreditAlert.objects.get().is_on
    assert credit_alerts.judge_all(now=now) == 0


def test_it_is_told_again_only_after_credit_has_clearly_risen(watching, now):
    saving.spend(watching, minor=1100, now=now, key="1")
    assert credit_alerts.judge_all(now=now) == 1
    buy(watching, amount=UNIT + UNIT // 2, key="2")
    assert credit_alerts.judge_all(now=now) == 0
    saving.spend(watching, minor=100, now=now, key="2")
    assert credit_alerts.judge_all(now=now) == 0

    buy(watching, amount=5 * UNIT, key="3")
    assert credit_alerts.judge_all(now=now) == 0
    assert CreditAlert.objects.get().is_low is False
    saving.spend(watching, minor=600, now=now, key="3")
    assert credit_alerts.judge_all(now=now) == 1

    assert CreditAlert.objects.get().crossing == 2


def test_the_runway_is_in_the_message(watching, now):
    market = Market(customer=watching, paid_nano=0, lease_nano=0)
    SpendDay.objects.create(
        day=now.date(),
        organization_id=watching.pk,
        api_key_id=market.key.pk,
        model_id=market.model.pk,
        price_version_id=market.price.pk,
        requests=1,
        prompt_tokens=1,
        cached_tokens=0,
        completion_tokens=1,
        charge_nano=14 * UNIT,
    )
    saving.spend(watching, minor=1400, now=now, key="1")

    credit_alerts.judge_all(now=now)

    assert "it lasts: 3 days" in render(Message.objects.filter(template="credit_low")[0]).text


def test_who_wants_none_gets_none(watching, now):
    credit_alerts.set_alert(organization=watching, threshold_nano=None, actor=SYSTEM_ACTOR, now=now)
    saving.spend(watching, minor=1900, now=now, key="1")

    assert credit_alerts.judge_all(now=now) == 0
    assert Message.objects.count() == 0


def test_a_threshold_is_more_than_nothing(watching, now):
    with pytest.raises(InvalidValue):
        credit_alerts.set_alert(organization=watching, threshold_nano=0, actor=SYSTEM_ACTOR, now=now)
    assert CreditAlert.objects.get().threshold_nano == 10 * UNIT


def test_booking_usage_notices_low_credit(now, monkeypatch, django_capture_on_commit_callbacks):
    market = Market(paid_nano=UNIT, lease_nano=UNIT)
    MembershipFactory(organization=market.customer, role="owner")
    credit_alerts.set_alert(organization=market.customer, threshold_nano=UNIT, actor=SYSTEM_ACTOR, now=now)
    market.serve()
    queued = []
    monkeypatch.setattr("portal.integrations.queue.app.send_task", lambda name, kwargs: queued.append((name, kwargs)))

    with django_capture_on_commit_callbacks(execute=True):
        posting.post_usage(now=now)

    assert ("billing.watch_credit", {"organization_id": market.customer.pk}) in queued


def test_nothing_is_asked_of_the_database_where_nothing_was_booked(now, django_assert_num_queries):
    with django_assert_num_queries(0):
        credit_watch.notice(organization_ids=set(), now=now)
