"""Events: what is delivered and to whom, what can be listed afterwards, for how long."""

from datetime import UTC, datetime, timedelta

from portal.sandbox.stripe_double.events import emit, emit_thin
from portal.sandbox.stripe_double.hooks import Endpoint
from portal.sandbox.stripe_double.server import Options, StripeDouble
from tests.integration.stripe_double.conftest import ALWAYS

DAY_S = 86_400


def test_a_twin_is_one_change_with_two_ids(till):
    till.double.control("webhooks", kind="twin")
    till.account("")

    first, second = till.double.pending()

    assert first.body != second.body
    assert (first.type, second.type) == ("v2.core.account.created", "v2.core.account.created")


def test_a_dropped_event_can_still_be_listed(till):
    opened = till.open()
    till.double.control("webhooks", kind="drop", count=9)
    till.press(opened.url, "pay")
    assert till.double.pending() == []

    listed = till.door.events_since(since=ALWAYS, types=("checkout.session.completed",))

    assert [event.object_id for event, _ in listed] == [opened.id]


def test_an_endpoint_hears_what_it_asked_for(till):
    till.double.control("endpoint", endpoint="platform", events="checkout.session.completed")
    opened = till.open()
    till.press(opened.url, "pay")

    assert till.told() == ["checkout.session.completed"]


def test_an_endpoint_that_is_off_hears_nothing(till):
    till.double.control("endpoint", endpoint="events", status="disabled")

    till.account("")

    assert till.told() == []
    assert [one.is_enabled for one in till.door.event_destinations()] == [False]


def test_the_list_of_endpoints_survives_a_reset(till):
    till.double.control("reset")

    endpoints = {(one.url, one.is_connect) for one in till.door.webhook_endpoints()}
    assert endpoints == {
        ("http://testserver/webhooks/stripe/", False),
        ("http://testserver/webhooks/stripe/connect/", True),
    }
    (destination,) = till.door.event_destinations()
    assert (destination.url, destination.payload) == ("http://testserver/webhooks/stripe/events/", "thin")


def test_another_version_of_an_endpoint_shows(till):
    till.double.control("endpoint", endpoint="platform", api_version="2020-08-27")

    assert "2020-08-27" in {one.api_version for one in till.door.webhook_endpoints()}


def test_a_connected_accounts_events_are_its_own(till):
    account = till.account()

    own = [event.type for event, _ in till.door.events_since(since=ALWAYS, account=account)]

    assert own == ["account.external_account.created"]
    assert list(till.door.events_since(since=ALWAYS, types=("account.external_account.created",))) == []


def test_events_are_kept_for_thirty_days(till):
    till.pay()
    till.account("")
    till.double.control("clock/advance", seconds=31 * DAY_S)

    assert list(till.door.events_since(since=ALWAYS)) == []
    assert list(till.door.thin_events_since(since=ALWAYS)) == []


def test_long_lists_come_in_pages(till):
    store = till.double.store
    with store.transaction():
        for number in range(101):
            account = {"id": f"acct_{number}", "livemode": False}
            emit_thin(store, "v2.core.account.created", account)
            emit(store, "customer.created", {"id": f"cus_{number}"})

    thin = [event.object_id for event, _ in till.door.thin_events_since(since=ALWAYS)]
    snapshots = [event.object_id for event, _ in till.door.events_since(since=ALWAYS)]

    assert thin == [f"acct_{number}" for number in reversed(range(101))]
    assert snapshots == [f"cus_{number}" for number in reversed(range(101))]


def test_lists_begin_at_the_moment_that_was_asked_for(till):
    till.pay()
    till.double.control("clock/advance", seconds=10 * DAY_S)
    later = till.pay()
    since = datetime.now(UTC) + timedelta(days=5)

    assert [one.id for one in till.door.payments_since(since=since)] == [later.payment_intent]
    assert [one.source for one in till.door.movements(since=since)] == [later.charge]


def test_an_endpoint_that_moved_is_listed_once_at_its_new_address(tmp_path):
    for port in (8000, 8001):
        endpoints = {"platform": Endpoint(f"http://127.0.0.1:{port}/webhooks/stripe/", "whsec_a")}
        double = StripeDouble(Options(db=tmp_path / "double.sqlite", endpoints=endpoints, has_sender=False)).start()
        kept = double.store.all("webhook_endpoint")
        double.stop()

        assert [one["url"] for one in kept] == [f"http://127.0.0.1:{port}/webhooks/stripe/"]
