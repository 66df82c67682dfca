"""A trust tier decides how long an earning is held and what of it is kept back; the rest of the way is by the day."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import EarningDay, EarningMaturity, LedgerTx, ReservedEarning
from portal.billing.rules.trust_tiers import Tier
from portal.billing.selectors import balances, earnings, provider_tiers
from portal.billing.services import maturity, posting, reconcile, reserve, tiers
from portal.core.errors import InvalidValue
from portal.trust.models import NodeEvidence
from portal.trust.rules.evidence import hour_of
from tests.factories.billing import DELIVERED, Market
from tests.world import World

pytestmark = pytest.mark.django_db
LATER = DELIVERED + timedelta(minutes=1)
SHARE = 480_000


@pytest.fixture(autouse=True)
def _terms(settings):
    settings.PAYOUT_HOLD_DAYS, settings.PAYOUT_RESERVE_BPS, settings.PAYOUT_RESERVE_DAYS = 7, 1000, 30


@pytest.fixture
def market() -> Market:
    """One request was served, by a provider whose first earning it is."""
    made = Market()
    made.serve()
    posting.post_usage(now=LATER)
    return made


def provider(market):
    return balances.provider_balance(provider=market.provider.public_id)


def old(market, days: int) -> None:
    """Let the provider have earned for so many days."""
    EarningDay.objects.create(
        day=(DELIVERED - timedelta(days=days)).date(), provider_id=market.provider.pk, node_id=1, model_id=1
    )


def misbehave(market, hours: int) -> None:
    """Let a node of the provider break a rule in so many hours."""
    for hour in range(hours):
        at = hour_of(DELIVERED - timedelta(hours=hour + 1))
        NodeEvidence.objects.create(node=market.node, rule="tunnel_flood", hour=at, count=5, first_at=at, last_at=at)


def standing(market):
    return provider_tiers.standing(market.provider, now=LATER)


def test_a_part_of_a_new_providers_earning_is_kept_back_and_released_in_time(market):
    at = DELIVERED + timedelta(days=7)

    maturity.mature(now=at)

    assert (provider(market).available_nano, provider(market).reserve_nano) == (SHARE * 9 // 10, SHARE // 10)
    assert [(row.amount_nano, row.day) for row in earnings.kept_back(provider=market.provider.public_id)] == [
        (SHARE // 10, (at + timedelta(days=30)).date())
    ]
    assert reserve.release_due(now=at + timedelta(days=30, microseconds=-1)) == 0
    assert reserve.release_due(now=at + timedelta(days=30)) == 1
    assert reserve.release_due(now=at + timedelta(days=31)) == 0
    assert (provider(market).available_nano, provider(market).reserve_nano) == (SHARE, 0)
    assert LedgerTx.objects.filter(kind="reserve_released").count() == 1
    assert reconcile.differences(now=LATER) == []


@pytest.mark.parametrize(
    ("days", "hours", "tier", "hold_days", "kept_bps"),
    [
        (0, 0, Tier.NEW, 7, 1000),
        (30, 0, Tier.STANDARD, 7, 500),
        (180, 0, Tier.TRUSTED, 7, 0),
        (180, 3, Tier.WATCHED, 14, 2000),
    ],
)
def test_age_identity_and_evidence_decide(days, hours, tier, hold_days, kept_bps):
    market = Market()
    if days:
        old(market, days)
    misbehave(market, hours)
    market.serve()
    posting.post_usage(now=LATER)

    found = standing(market)
    assert (found.tier, found.hold_days, found.reserve_bps) == (tier, hold_days, kept_bps)
    assert EarningMaturity.objects.get().matures_at == DELIVERED + timedelta(days=hold_days)
    maturity.mature(now=DELIVERED + timedelta(days=hold_days))
    assert provider(market).reserve_nano == SHARE * kept_bps // 10_000


def test_old_evidence_no_longer_counts(market):
    old(market, 200)
    at = hour_of(DELIVERED - timedelta(days=31))
    for hour in range(5):
        moment = at - timedelta(hours=hour)
        NodeEvidence.objects.create(
            node=market.node, rule="tunnel_flood", hour=moment, count=1, first_at=moment, last_at=moment
        )

    assert standing(market).tier == Tier.TRUSTED


def test_without_reserve_days_nothing_is_kept_back(market, settings):
    settings.PAYOUT_RESERVE_DAYS = 0

    maturity.mature(now=DELIVERED + timedelta(days=7))

    assert (provider(market).available_nano, ReservedEarning.objects.count()) == (SHARE, 0)


def test_an_operator_sets_a_tier_with_a_reason_and_takes_it_away(market):
    name = market.provider.public_id
    with pytest.raises(InvalidValue):
        tiers.pin_tier(provider_id=name, tier=Tier.TRUSTED, reason=" ", actor=SYSTEM_ACTOR, now=LATER)

    tiers.pin_tier(provider_id=name, tier=Tier.TRUSTED, reason="signed terms", actor=SYSTEM_ACTOR, now=LATER)
    pinned = standing(market)
    tiers.unpin_tier(provider_id=name, actor=SYSTEM_ACTOR, now=LATER)

    assert (pinned.tier, pinned.earned_tier, pinned.because) == (Tier.TRUSTED, Tier.NEW, "signed terms")
    assert standing(market).tier == Tier.NEW
    events = AuditEvent.objects.filter(subject=name, event__startswith="provider.tier").order_by("pk")
    assert [event.detail for event in events] == [
        {"before": "", "after": "trusted"},
        {"before": "trusted", "after": ""},
    ]


def test_many_providers_are_judged_in_a_handful_of_queries(market, django_assert_max_num_queries):
    providers = [market.provider, *(Market().provider for _ in range(3))]

    with django_assert_max_num_queries(3):
        found = provider_tiers.standings(providers, now=LATER)

    assert len(found) == 4


def test_a_provider_whose_reserve_is_short_keeps_nobody_waiting(market, caplog):
    other = Market()
    other.serve()
    posting.post_usage(now=LATER)
    maturity.mature(now=DELIVERED + timedelta(days=7))
    short, sound = sorted((market, other), key=lambda each: each.provider.public_id)
    ReservedEarning.objects.filter(provider=short.provider.public_id).update(amount_nano=SHARE)

    assert reserve.release_due(now=DELIVERED + timedelta(days=37)) == 1

    assert (provider(short).reserve_nano, provider(sound).reserve_nano) == (SHARE // 10, 0)
    assert "billing.reserve_blocked" in caplog.messages


def test_a_changed_reserve_is_a_difference(market):
    maturity.mature(now=DELIVERED + timedelta(days=7))
    ReservedEarning.objects.update(amount_nano=1)

    codes = {found.code for found in reconcile.differences(now=LATER)}

    assert {"reserve_differs_from_parts", "reserve_kept_differs_from_ledger"} <= codes


def test_the_operator_sees_tier_and_reserve_and_sets_the_tier(world: World):
    url = reverse("operators:standing", args=[world.provider.public_id])
    operator = world.client(world.operator)

    assert "Not identified yet, or earning for less than 30 days." in operator.get(url).content.decode()
    refused = operator.post(url, {"tier": "trusted", "reason": ""})
    operator.post(url, {"tier": "trusted", "reason": "signed terms"})

    assert "give the reason" in refused.content.decode()
    assert "signed terms" in operator.get(url).content.decode()
    operator.post(url, {"tier": "facts"})
    assert provider_tiers.standing(world.provider, now=LATER).pin is None
