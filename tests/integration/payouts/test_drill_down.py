"""From a payout to its earnings to the requests: everything that was paid can be followed down, and adds up."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import maturity, posting
from portal.core import money
from portal.payouts.selectors import earnings as selectors
from portal.payouts.services import approvals, drafts, sending
from tests.factories.accounts import MembershipFactory, UserFactory
from tests.factories.billing import DELIVERED, Market
from tests.world import World

pytestmark = pytest.mark.django_db
SHARE = 480_000
SCALE = 1_000


@pytest.fixture
def market(shop, settings) -> Market:
    """A market whose provider has an account at Stripe; a request earns 0.48."""
    settings.PAYOUT_HOLD_DAYS, settings.PAYOUT_MINIMUM_MINOR = 0, 1
    made = Market()
    shop.onboard(made.provider, action="complete", now=DELIVERED)
    shop.fund(100_000)
    return made


def earn(market: Market, at, *, requests: int = 2) -> None:
    """Serve, post and mature."""
    for _ in range(requests):
        market.serve(prompt=1_000_000, completion=500_000, closed_at=at)
    posting.post_usage(now=at)
    maturity.mature(now=at)


def pay(now):
    """Draft, approve and send; return the payout."""
    (payout,) = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts
    approvals.approve(
        payout_public_id=payout.public_id, approver=UserFactory(is_operator=True), actor=SYSTEM_ACTOR, now=now
    )
    return sending.send(payout_id=payout.pk, now=now)


def test_a_payout_is_what_matured_since_the_one_before(market):
    earn(market, DELIVERED)
    first = pay(DELIVERED + timedelta(hours=1))
    earn(market, DELIVERED + timedelta(hours=2), requests=1)
    second = pay(DELIVERED + timedelta(hours=3))

    assert (first.amount_minor, second.amount_minor) == (96, 48)
    made_of = selectors.composition(payout=second)
    assert [(part.kind, part.count, part.amount_nano) for part in made_of.parts] == [("maturity", 1, SHARE * SCALE)]
    assert (made_of.carried_nano, made_of.sent_nano, made_of.left_nano) == (
        0,
        money.nano_from_minor(48, "usd"),
        0,
    )
    assert [row.left_nano for row in selectors.matured(payout=second)] == [SHARE * SCALE]


def test_dust_is_carried_from_payout_to_payout(market):
    market.serve(prompt=1_000_007, completion=500_000)
    posting.post_usage(now=DELIVERED)
    maturity.mature(now=DELIVERED)
    first = pay(DELIVERED + timedelta(hours=1))
    earn(market, DELIVERED + timedelta(hours=2), requests=1)
    second = pay(DELIVERED + timedelta(hours=3))

    left = selectors.composition(payout=first).left_nano
    assert 0 < left < money.nano_per_minor("usd")
    assert selectors.composition(payout=second).carried_nano == left


def test_each_earning_leads_to_its_requests(market):
    earn(market, DELIVERED)
    payout = pay(DELIVERED + timedelta(hours=1))

    (earning,) = selectors.matured(payout=payout)
    rows = selectors.records_of(provider=market.provider.public_id, tx=earning.tx_id)

    assert sum(row.provider_nano for row in rows) == earning.amount_nano == 2 * SHARE * SCALE
    assert len(selectors.usage_of(rows)) == 2


def test_anothers_earning_is_not_there(market):
    earn(market, DELIVERED)
    (earning,) = selectors.matured(payout=pay(DELIVERED + timedelta(hours=1)))

    assert selectors.records_of(provider="prov_other", tx=earning.tx_id) == []


def test_the_provider_follows_a_payout_down_to_a_request(market, world: World):
    earn(market, DELIVERED)
    payout = pay(DELIVERED + timedelta(hours=1))
    member = UserFactory()
    organization = market.provider.organization
    organization.is_provider = True
    organization.save()
    MembershipFactory(organization=organization, user=member)
    browser = world.client(member, organization)

    page = browser.get(reverse("provider:payout", args=[payout.public_id])).content.decode()
    (earning,) = selectors.matured(payout=payout)
    link = reverse("provider:earning", args=[earning.tx_id])
    assert ("Carried on to the next" in page, link in page) == (True, True)
    records = browser.get(link).content.decode()
    request = selectors.records_of(provider=market.provider.public_id, tx=earning.tx_id)[0].request_id

    assert reverse("provider:request", args=[request]) in records
    assert world.client(world.supplier.owner).get(link).status_code == 404
    assert (
        world.client(world.supplier.owner).get(reverse("provider:payout", args=[payout.public_id])).status_code == 404
    )
