"""Who shares a person, card or bank account is one party; an address alone only makes the operator look."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.accounts.models import Membership
from portal.audit.models import AuditEvent
from portal.audit.services import Actor
from portal.billing.models import CustomerRisk, EarningMaturity, PartyFact, RelatedPair, UsagePosting
from portal.billing.rules.related import FactKind
from portal.billing.selectors import related as selectors
from portal.billing.services import posting, reconcile, related
from portal.core.errors import InvalidValue
from portal.metering.models import UsageHour
from tests.factories.accounts import MembershipFactory, OrganizationFactory, UserFactory
from tests.factories.billing import DELIVERED, EarningProviderFactory, Market, ServingNodeFactory

pytestmark = pytest.mark.django_db
OPERATOR = Actor(public_id="user_operator")
HOME, OTHER = "8.8.4.4", "9.9.9.9"
SHARE = 480_000
LATER = DELIVERED + timedelta(minutes=1)


@pytest.fixture
def market(db):
    """A customer who paid by card, and a node of a provider it has nothing to do with."""
    provider = EarningProviderFactory(organization__is_provider=True)
    made = Market(node=ServingNodeFactory(provider=provider))
    CustomerRisk.objects.create(organization=made.customer, tier="trusted", judged_at=DELIVERED)
    return made


def earned(market) -> list[tuple[int, str]]:
    """Serve and book one request; return what the provider got of each, and why not."""
    market.serve()
    posting.post_usage(now=LATER)
    return list(UsagePosting.objects.order_by("pk").values_list("provider_nano", "withheld"))


def both_seen(market, kind, value, *, now=DELIVERED) -> None:
    for organization in (market.customer, market.provider.organization):
        related.note(organization=organization, kind=kind, value=value, source="test", now=now)


def test_strangers_earn(market):
    both_seen(market, FactKind.CARD, "")
    related.note(organization=market.customer, kind=FactKind.CARD, value="one", source="test", now=DELIVERED)
    related.look(now=DELIVERED)

    assert earned(market) == [(SHARE, "")]


@pytest.mark.parametrize("kind", [FactKind.CARD, FactKind.BANK])
def test_a_shared_card_or_bank_account_proves_one_party(market, kind):
    both_seen(market, kind, "fingerprint")

    assert earned(market) == [(0, "related_party")]
    assert reconcile.differences(now=LATER) == []
    assert PartyFact.objects.filter(digest__contains="fingerprint").count() == 0


def test_a_shared_person_counts_from_the_first_request_on(market):
    person = UserFactory()
    for organization in (market.customer, market.provider.organization):
        MembershipFactory(organization=organization, user=person)

    assert earned(market) == [(0, "related_party")]


def test_a_person_who_left_was_there_all_the_same(market):
    person = UserFactory()
    for organization in (market.customer, market.provider.organization):
        MembershipFactory(organization=organization, user=person)
    related.look(now=DELIVERED)
    Membership.objects.filter(user=person).delete()

    assert earned(market) == [(0, "related_party")]


def test_an_address_alone_lets_paid_credit_earn_as_late_as_a_new_customers(market):
    both_seen(market, FactKind.ADDRESS, HOME)

    assert earned(market) == [(SHARE, "")]
    assert EarningMaturity.objects.get().matures_at == DELIVERED + timedelta(days=60)
    assert RelatedPair.objects.values_list("found", "is_related").get() == ("suspected", False)


def test_an_address_alone_keeps_promotional_credit_from_earning(db):
    provider = EarningProviderFactory(organization__is_provider=True)
    market = Market(node=ServingNodeFactory(provider=provider), promo_nano=10**9)
    both_seen(market, FactKind.ADDRESS, HOME)

    assert earned(market) == [(0, "linked_promo")]
    assert reconcile.differences(now=LATER) == []


def test_an_address_and_most_of_the_money_prove_one_party(market):
    both_seen(market, FactKind.ADDRESS, HOME)
    UsageHour.objects.create(
        **dict.fromkeys(
            [
                "api_key_id",
                "node_id",
                "model_id",
                "attempts",
                "charged",
                "faults",
                "prompt_tokens",
                "cached_tokens",
                "completion_tokens",
                "claimed_tokens",
                "counted_tokens",
                "provider_nano",
                "first_token_ms",
                "streams",
            ],
            1,
        ),
        hour=DELIVERED,
        organization_id=market.customer.pk,
        provider_id=market.provider.pk,
        charge_nano=1000,
    )

    related.look(now=LATER)

    assert RelatedPair.objects.values_list("kinds", "found", "is_related").get() == (
        ["address", "flow"],
        "related",
        True,
    )
    assert earned(market) == [(0, "related_party")]


def test_addresses_of_houses_carriers_and_crowds_say_nothing(market):
    for address in ("192.168.1.7", "127.0.0.1", "100.64.3.4", "fd00::1"):
        both_seen(market, FactKind.ADDRESS, address)
    digest = related.digest_of(kind=FactKind.ADDRESS, value=OTHER)
    crowd = [OrganizationFactory(is_provider=True) for _ in range(selectors.MOST_AT_AN_ADDRESS + 1)]
    seen = {
        "kind": "address",
        "digest": digest,
        "source": "test",
        "first_seen_at": DELIVERED,
        "last_seen_at": DELIVERED,
    }
    PartyFact.objects.bulk_create(PartyFact(organization=one, **seen) for one in crowd)
    both_seen(market, FactKind.ADDRESS, OTHER)

    assert RelatedPair.objects.count() == 0


def test_two_hosts_of_one_ipv6_site_are_one_address(market):
    related.note(
        organization=market.customer, kind=FactKind.ADDRESS, value="2a01:4f8:1:2::7", source="a", now=DELIVERED
    )
    related.note(
        organization=market.provider.organization,
        kind=FactKind.ADDRESS,
        value="2a01:4f8:1:2:aaaa::1",
        source="b",
        now=DELIVERED,
    )

    assert RelatedPair.objects.get().kinds == ["address"]


def test_where_a_node_lives_is_an_address_of_its_provider(market):
    market.node.last_address = HOME
    market.node.save()
    related.note(organization=market.customer, kind=FactKind.ADDRESS, value=HOME, source="topup", now=DELIVERED)

    related.look(now=DELIVERED)

    assert RelatedPair.objects.get().found == "suspected"


def test_a_sign_in_counts_for_each_organization_of_the_person(market):
    member = MembershipFactory(organization=market.customer)
    related.note(
        organization=market.provider.organization, kind=FactKind.ADDRESS, value=HOME, source="node", now=DELIVERED
    )

    related.note_sign_in(user=member.user, address=HOME, now=DELIVERED)

    assert RelatedPair.objects.get().kinds == ["address"]


def test_what_is_still_maturing_between_the_two_is_kept_back_when_they_are_found(market, settings):
    settings.PAYOUT_HOLD_DAYS = 7
    assert earned(market) == [(SHARE, "")]

    both_seen(market, FactKind.CARD, "late")

    assert EarningMaturity.objects.get().matures_at == DELIVERED + timedelta(days=90)


@pytest.mark.parametrize(
    ("kind", "ruling", "expected"),
    [
        (FactKind.CARD, "unrelated", (SHARE, "")),
        (FactKind.ADDRESS, "related", (0, "related_party")),
        (FactKind.CARD, "", (0, "related_party")),
    ],
)
def test_an_operator_overrules_and_it_is_audited(market, kind, ruling, expected):
    both_seen(market, kind, HOME)
    pair = RelatedPair.objects.get()

    related.rule(pair_id=pair.pk, ruling=ruling, note="we met them", actor=OPERATOR, now=DELIVERED)
    related.look(now=LATER)

    assert earned(market) == [expected]
    assert AuditEvent.objects.filter(actor="user_operator", event__startswith="related.").count() == 1


def test_overruled_people_stay_overruled(market):
    person = UserFactory()
    for organization in (market.customer, market.provider.organization):
        MembershipFactory(organization=organization, user=person)
    related.look(now=DELIVERED)
    pair = RelatedPair.objects.get()

    related.rule(pair_id=pair.pk, ruling="unrelated", note="an accountant of both", actor=OPERATOR, now=DELIVERED)

    assert earned(market) == [(SHARE, "")]


def test_a_ruling_needs_a_reason(market):
    both_seen(market, FactKind.CARD, "x")
    pair = RelatedPair.objects.get()

    with pytest.raises(InvalidValue):
        related.rule(pair_id=pair.pk, ruling="unrelated", note=" ", actor=OPERATOR, now=DELIVERED)

    pair.refresh_from_db()
    assert (pair.is_related, pair.ruling) == (True, "")


def test_the_poster_reads_pairs_once_a_run(market):
    for _ in range(20):
        market.serve()

    with CaptureQueriesContext(connection) as queries:
        posting.post_usage(now=LATER)

    assert sum("billing_relatedpair" in query["sql"] for query in queries) == 1
