"""Prices, agreements, shares, rates and the margin as pages: set by the operator, seen by customers and providers."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import AvailabilityRate, PriceEnd, PriceVersion, ShareTier, ShareVersion, TierMembership
from portal.billing.rules.rating import Terms
from portal.billing.selectors import offers
from portal.billing.services import posting, prices
from portal.catalog.models import ModelState
from tests.factories.billing import Market, PricedModelFactory, ServingNodeFactory, agreed_price
from tests.world import World

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 2, 15, 0, tzinfo=UTC)
LATER = {"prompt": "0.30", "cached": "0.05", "completion": "0.9", "request_fee": "0.000001"}
CHEAP = Terms(100_000_000, 10_000_000, 400_000_000, request_nano=7)


@pytest.fixture(autouse=True)
def at_noon():
    """Pages read the clock; it stands still."""
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def market(world: World) -> Market:
    """A customer's requests on a provider's node, posted."""
    served = Market(customer=world.customer.organization, node=ServingNodeFactory(provider=world.provider))
    served.serve(closed_at=NOW - timedelta(days=1))
    served.serve(prompt=3000, cached=1000, closed_at=NOW)
    posting.post_usage(now=NOW)
    return served


def test_a_planned_price_is_previewed_on_real_usage_set_and_taken_back(world, market, django_assert_max_num_queries):
    browser = world.client(world.operator)
    address = f"/operator/prices/{market.model.pk}/"
    planned = LATER | {"effective_from": "2026-12-01T00:00"}

    with django_assert_max_num_queries(30):
        preview = browser.post(address, planned).content.decode()
    assert browser.post(address, planned | {"confirm": "1"}).status_code == 302
    version = PriceVersion.objects.get(version=2)
    listed = browser.get("/operator/prices/").content.decode()
    shown = world.client().get(f"/models/{market.model.public_id}/").content.decode()
    cancel = f"/operator/prices/versions/{version.pk}/cancel/"
    asked = browser.get(cancel).content.decode()
    refused = browser.post(cancel, {"reason": ""}).content.decode()
    assert not PriceEnd.objects.exists()
    done = browser.post(cancel, {"reason": "A slip."}, follow=True).content.decode()

    assert "Each request was rated again" in preview
    assert "2 requests" in preview
    assert "$0.00145" in preview  # paid: 0.0006 + 0.00085
    assert world.customer.organization.name in preview
    assert "2026-12-01 00:00" in listed
    assert "From 1 December 2026, 00:00 UTC:" in shown
    assert "$0.30" in shown
    assert "It would hold from" in asked
    assert "This field is required" in refused
    assert "canceled" in done
    assert "From 1 December" not in world.client().get(f"/models/{market.model.public_id}/").content.decode()
    late = browser.post(cancel, {"reason": "Again."}).content.decode()
    assert "ended before" in late


def test_a_price_is_agreed_with_one_organization_and_ended(world, market, django_assert_max_num_queries):
    browser = world.client(world.operator)
    terms = LATER | {
        "organization": world.customer.organization.public_id,
        "model": market.model.public_id,
        "prompt": "0.1",
        "cached": "0.01",
        "effective_from": "",
        "effective_until": "2026-12-31T00:00",
    }

    with django_assert_max_num_queries(30):
        preview = browser.post("/operator/prices/agreements/", terms).content.decode()
    unknown = browser.post("/operator/prices/agreements/", terms | {"organization": "org_x"}).content.decode()
    browser.post("/operator/prices/agreements/", terms | {"confirm": "1"})
    version = PriceVersion.objects.exclude(organization=None).get()
    listed = browser.get("/operator/prices/agreements/").content.decode()
    customers = world.client(world.customer.reader).get("/customer/prices/").content.decode()
    strangers = world.client(world.stranger).get("/customer/prices/").content.decode()
    public = world.client().get(f"/models/{market.model.public_id}/").content.decode()
    end = f"/operator/prices/agreements/{version.pk}/end/"
    with time_machine.travel(NOW + timedelta(hours=1), tick=False):
        ended = browser.post(end, {"reason": "Over."}, follow=True).content.decode()

    assert "Each request was rated again" in preview
    assert "no organization with this id" in unknown
    assert "agreed with you" in customers
    assert "your agreement ends, the public price holds again" in customers
    assert "in force" in listed
    assert "agreed with you" not in strangers
    assert "$0.10" not in public
    assert "2026-12-31 00:00" in listed
    assert "The public price holds again" in ended
    assert PriceEnd.objects.get().at == NOW + timedelta(hours=1)


def test_shares_are_set_by_tier_and_the_provider_sees_each_step(world, market):
    browser = world.client(world.operator)
    browser.post("/operator/shares/", {"what": "tier", "tier-name": "Verified"})
    tier = ShareTier.objects.get()
    browser.post("/operator/shares/", {"what": "share", "share-tier": tier.pk, "share-percent": "85"})
    browser.post("/operator/shares/", {"what": "move", "move-provider": world.provider.pk, "move-tier": tier.pk})
    both = {"what": "share", "share-tier": tier.pk, "share-provider": world.provider.pk, "share-percent": "1"}
    refused = browser.post("/operator/shares/", both).content.decode()
    again = browser.post("/operator/shares/", {"what": "tier", "tier-name": "verified"}).content.decode()

    listed = browser.get("/operator/shares/").content.decode()
    seen = world.client(world.supplier.reader).get("/provider/share/").content.decode()

    assert TierMembership.objects.get().tier == tier
    assert "a provider&#x27;s or a tier&#x27;s" in refused
    assert "a tier named verified already" in again
    assert "Tier Verified" in listed
    assert "85%" in seen
    assert "the tier Verified" in seen
    assert ShareVersion.objects.count() == 1


def test_a_rate_is_set_for_the_next_hour_and_the_provider_sees_it(world):
    browser = world.client(world.operator)

    wrong = browser.post("/operator/availability/", {"per_minute": "0.001", "effective_from": "2026-11-02T15:30"})
    browser.post("/operator/availability/", {"gpu_kind": "", "per_minute": "0.0004", "effective_from": ""})

    assert "full UTC hour" in wrong.content.decode()
    rate = AvailabilityRate.objects.get()
    assert (rate.nano_per_minute, rate.effective_from) == (400_000, NOW + timedelta(hours=1))
    assert "$0.024" in browser.get("/operator/availability/").content.decode()
    with time_machine.travel(NOW + timedelta(hours=2), tick=False):
        assert "$0.0004" in world.client(world.supplier.reader).get("/provider/share/").content.decode()


def test_the_margin_is_a_page_and_a_file(world, market, django_assert_max_num_queries):
    browser = world.client(world.operator)

    with django_assert_max_num_queries(30):
        page = browser.get("/operator/margin/?days=7").content.decode()
    lines = browser.get("/operator/margin.csv?days=7").content.decode().splitlines()

    assert "Left to the pool" in page
    assert market.model.public_id in page
    assert len(lines) == 8
    assert lines[0].startswith(
        "day_utc,requests,charged_usd,provider_earnings_usd,availability_pay_usd,house_nodes_usd"
    )
    assert lines[-1] == "2026-11-02,1,0.00085,0.00068,0,0,0,0,0,0,0.00017"


def test_the_usage_page_names_the_versions_that_applied(world, market):
    agreed = agreed_price(world.customer.organization, market.model, terms=CHEAP)
    market.serve(price_version_id=agreed.pk, charge_nano=300_007, closed_at=NOW)
    posting.post_usage(now=NOW)

    page = world.client(world.customer.reader).get("/customer/usage/").content.decode()

    assert "By price" in page
    assert page.count("own v1") == 2
    assert page.count("<td>v1</td>") == 3


def test_models_and_prices_are_public_and_drafts_are_not(db, world, django_assert_max_num_queries):
    shown, draft = PricedModelFactory(name="Shown 8B"), PricedModelFactory(state=ModelState.DRAFT)
    retired, unpriced = PricedModelFactory(state=ModelState.RETIRED), PricedModelFactory()
    for model in (shown, draft, retired):
        prices.set_price(model=model, terms=CHEAP, actor=SYSTEM_ACTOR, now=NOW)
    browser = world.client()

    with django_assert_max_num_queries(10):
        listed = browser.get("/models/").content.decode()

    assert shown.public_id in listed
    assert not [model for model in (draft, retired, unpriced) if model.public_id in listed]
    assert [browser.get(f"/models/{model.public_id}/").status_code for model in (shown, retired, draft, unpriced)] == [
        200, 200, 404, 404,
    ]  # fmt: skip
    assert browser.get("/models/nobody/nothing/").status_code == 404


def test_a_customer_sees_what_comes_after_an_agreement_and_no_public_price_that_it_will_not_pay(world, market):
    model, organization = market.model, world.customer.organization
    day = timedelta(days=1)

    def plan(after: int, *, until: int | None = None, is_own: bool = False) -> None:
        agreed = prices.Agreed(organization, NOW + until * day if until else None) if is_own else None
        prices.set_price(
            model=model, terms=CHEAP, actor=SYSTEM_ACTOR, now=NOW, effective_from=NOW + after * day, agreed=agreed
        )

    plan(2, until=5, is_own=True)
    plan(1)
    plan(3)
    plan(7)

    (offer,) = offers.offers(now=NOW, organization_id=organization.pk)
    (strangers,) = offers.offers(now=NOW, organization_id=world.other.pk)

    assert [((step.at - NOW).days, step.price and step.price.version) for step in offer.coming] == [
        (1, 2), (2, 1), (5, None), (7, 4),
    ]  # fmt: skip
    assert [(step.at - NOW).days for step in strangers.coming] == [1, 3, 7]
