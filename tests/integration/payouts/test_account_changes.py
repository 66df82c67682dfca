"""Changing where the money goes: a fresh second factor, every owner told, and payouts that rest for 72 hours."""

from datetime import timedelta

import pytest

from portal.accounts.models import Role
from portal.accounts.services import members
from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.notifications.models import Message
from portal.notifications.rendering import render
from portal.payouts.errors import DestinationHeld, PayoutNotSendable, PayoutOpenToAccount, SecondFactorNeeded
from portal.payouts.models import DestinationChange, Payout, PayoutAccount
from portal.payouts.services import accounts, approvals, destinations, drafts, identity, sending
from portal.providers.models import Provider
from portal.providers.services.profile import Profile
from tests.factories.accounts import MembershipFactory, UserFactory
from tests.factories.billing import EarningProviderFactory
from tests.factories.payouts import balance_of

pytestmark = pytest.mark.django_db

THIEF = Actor(public_id="user_thief", address="203.0.113.7")
HOLD = timedelta(hours=72)


def owner_of(provider, email: str):
    """Give the provider's organization an owner."""
    return MembershipFactory(organization=provider.organization, role=Role.OWNER, user__email=email)


def unlink(provider, now, *, confirmed_at):
    """Press the button as the thief would."""
    return accounts.unlink(provider=provider, confirmed_at=confirmed_at, actor=THIEF, now=now)


def told() -> set[str]:
    """Return who was written to about a change."""
    rows = Message.objects.filter(template="payout_destination_changed", key__startswith="destination-change")
    return set(rows.values_list("to", flat=True))


@pytest.mark.parametrize("age", [None, timedelta(minutes=11), timedelta(minutes=-1)])
def test_without_a_fresh_second_factor_nothing_changes(shop, now, age):
    provider = shop.provider(earned_minor=0, now=now)
    before = PayoutAccount.objects.get()
    Message.objects.all().delete()

    with pytest.raises(SecondFactorNeeded) as refused:
        unlink(provider, now, confirmed_at=now - age if age is not None else None)

    after = PayoutAccount.objects.get()
    assert refused.value.code == "second_factor_needed"
    assert (after.stripe_account, after.generation) == (before.stripe_account, 1)
    assert (DestinationChange.objects.filter(kind="stripe_unlinked").count(), told()) == (0, set())


def test_an_unlinking_is_told_to_all_owners_old_and_new(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    first, second = owner_of(provider, "first@supply.example"), owner_of(provider, "second@supply.example")
    members.remove_member(manager=first, user_public_id=second.user.public_id, actor=THIEF, now=now - timedelta(days=1))
    Message.objects.all().delete()

    unlink(provider, now, confirmed_at=now)

    assert told() == {"first@supply.example", "second@supply.example", "ops@example.com"}
    text = render(Message.objects.filter(to="first@supply.example").get()).text
    assert "If this was not you:" in text
    assert "203.0.113.7" in text
    assert "2026-11-05 12:00 UTC" in text
    event = AuditEvent.objects.get(event="payout_destination.changed", detail__kind="stripe_unlinked")
    assert (event.actor, event.address) == ("user_thief", "203.0.113.7")


def test_an_unlinked_account_is_replaced_by_one_of_the_next_generation(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    old = provider.payout_account.stripe_account

    row = unlink(provider, now, confirmed_at=now)
    provider.refresh_from_db()
    assert (row.stripe_account, row.state, row.generation, provider.is_identified) == (None, "not_started", 2, False)
    new = shop.onboard(provider, action="complete", now=now)

    row.refresh_from_db()
    provider.refresh_from_db()
    assert (row.stripe_account, row.state, provider.is_identified) == (new, "active", True)
    assert new != old


def test_another_account_than_the_first_needs_the_second_factor_too(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    unlink(provider, now, confirmed_at=now)

    with pytest.raises(SecondFactorNeeded):
        accounts.start_onboarding(
            provider=provider, return_url="http://testserver/r", refresh_url="http://testserver/f", actor=THIEF, now=now
        )

    assert len(shop.double.store.all("v2.core.account")) == 1


def test_the_form_of_a_working_account_needs_the_second_factor(shop, now):
    provider = shop.provider(earned_minor=0, now=now)

    for call in (
        lambda: accounts.start_onboarding(
            provider=provider, return_url="http://testserver/r", refresh_url="http://testserver/f", actor=THIEF, now=now
        ),
        lambda: accounts.dashboard_link(provider=provider, confirmed_at=None, now=now),
    ):
        with pytest.raises(SecondFactorNeeded):
            call()


def test_payouts_rest_for_72_hours_and_say_until_when(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    unlink(provider, now, confirmed_at=now)
    shop.onboard(provider, action="complete", now=now)

    early = drafts.draft_payouts(now=now + HOLD - timedelta(seconds=1), actor=SYSTEM_ACTOR)
    late = drafts.draft_payouts(now=now + HOLD, actor=SYSTEM_ACTOR)

    reason = early.skipped[0].reason
    assert (early.payouts, reason.code, reason.detail) == ([], "destination_changed", "until 2026-11-05 12:00 UTC")
    assert [payout.amount_minor for payout in late.payouts] == [2550]


@pytest.mark.parametrize("state", ["reserved", "held", "approved", "unknown", "waiting_funds", "needs_review"])
def test_an_account_is_not_unlinked_while_a_payout_goes_to_it(shop, now, state):
    provider = shop.provider(earned_minor=2550, now=now)
    payout = shop.approved(provider, now=now)
    Payout.objects.filter(pk=payout.pk).update(state=state)

    with pytest.raises(PayoutOpenToAccount) as refused:
        unlink(provider, now, confirmed_at=now)

    assert payout.public_id in refused.value.message
    assert PayoutAccount.objects.get().stripe_account == payout.destination


def test_another_bank_at_stripe_holds_what_is_approved(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("account/bank", account=payout.destination, bank="DE00 thief")

    accounts.refresh(provider_id=provider.public_id, now=now)
    with pytest.raises(PayoutNotSendable):
        sending.send(payout_id=payout.pk, now=now)

    payout.refresh_from_db()
    assert (payout.state, payout.state_reason) == (
        "held",
        "The destination was changed: it rests until 2026-11-05 12:00 UTC",
    )
    assert "ops@example.com" in told()
    assert shop.transfers(payout) == []
    for act in (
        lambda: approvals.resume(payout_public_id=payout.public_id, actor=SYSTEM_ACTOR, now=now),
        lambda: destinations.require_no_hold(provider=provider, now=now),
    ):
        with pytest.raises(DestinationHeld):
            act()


def test_another_bank_seen_only_while_sending_is_not_paid(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("account/bank", account=payout.destination, bank="DE00 thief")

    first = sending.send(payout_id=payout.pk, now=now)

    assert (first.state, first.state_reason) == ("approved", "its destination was changed")
    with pytest.raises(PayoutNotSendable):
        sending.send(payout_id=payout.pk, now=now)
    payout.refresh_from_db()
    assert (payout.state, shop.transfers(payout)) == ("held", [])


def test_after_the_pause_a_held_payout_waits_for_its_approvals_again(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    shop.fund(10_000)
    payout = shop.approved(provider, now=now)
    shop.double.control("account/bank", account=payout.destination, bank="DE00 new")
    accounts.refresh(provider_id=provider.public_id, now=now)

    assert destinations.resume_held(now=now + HOLD - timedelta(seconds=1)) == 0
    assert destinations.resume_held(now=now + HOLD) == 1

    payout.refresh_from_db()
    assert (payout.state, payout.approvals.count()) == ("reserved", 0)
    operator = UserFactory(is_operator=True)
    approvals.approve(payout_public_id=payout.public_id, approver=operator, actor=SYSTEM_ACTOR, now=now + HOLD)
    assert sending.send(payout_id=payout.pk, now=now + HOLD).state == "transferred"
    assert balance_of("payout_clearing", provider.public_id) == 0


def test_the_same_bank_again_is_no_change(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    shop.double.control("account", account=provider.payout_account.stripe_account, move="complete")

    accounts.refresh(provider_id=provider.public_id, now=now)

    assert list(DestinationChange.objects.values_list("kind", flat=True)) == ["stripe_opened"]


def test_the_first_account_starts_no_pause(shop, now):
    shop.provider(earned_minor=2550, now=now)

    assert [one.amount_minor for one in drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts] == [2550]
    assert DestinationChange.objects.get().holds_until is None


def test_a_wrong_country_is_corrected_by_starting_again(shop, now):
    provider = shop.provider(earned_minor=0, now=now, action="leave")
    Provider.objects.filter(pk=provider.pk).update(country="FR")
    provider.refresh_from_db()

    unlink(provider, now, confirmed_at=now)
    new = shop.onboard(provider, action="complete", now=now)

    assert shop.double.store.get("v2.core.account", new)["identity"] == {"country": "fr"}


def reconnected(shop, provider, now, *, currency: str):
    """Link another account whose bank takes this currency."""
    unlink(provider, now, confirmed_at=now)
    url = accounts.start_onboarding(
        provider=provider,
        return_url="http://testserver/r",
        refresh_url="http://testserver/f",
        actor=SYSTEM_ACTOR,
        now=now,
        confirmed_at=now,
    )
    account = PayoutAccount.objects.get().stripe_account
    shop.double.control("account/bank", account=account, bank="DE00 other", currency=currency)
    shop.post_page(url, "complete")
    return accounts.refresh(provider_id=provider.public_id, now=now)


def test_a_reconnected_account_in_another_currency_is_refused(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)

    row = reconnected(shop, provider, now, currency="eur")

    provider.refresh_from_db()
    assert (row.state, row.state_code, row.currency) == ("unsupported", "currency_differs", "usd")
    assert provider.is_identified is False
    run = drafts.draft_payouts(now=now + HOLD, actor=SYSTEM_ACTOR)
    assert [one.reason.code for one in run.skipped] == ["account_not_payable"]


def test_a_reconnected_account_in_the_same_currency_is_taken(shop, now):
    provider = shop.provider(earned_minor=0, now=now)

    assert reconnected(shop, provider, now, currency="usd").state == "active"


def test_an_operator_may_accept_the_other_currency(shop, now):
    provider = shop.provider(earned_minor=0, now=now)
    reconnected(shop, provider, now, currency="eur")

    accounts.accept_currency(provider=provider, actor=SYSTEM_ACTOR, now=now)
    row = accounts.refresh(provider_id=provider.public_id, now=now)

    assert (row.state, row.currency) == ("active", "eur")
    assert AuditEvent.objects.filter(event="payout_account.currency_accepted").count() == 1


def rename(provider, now, *, confirmed_at, **fields):
    """Change the profile as the person at the page would."""
    given = Profile(**({"legal_name": "Supplier AG", "contact_email": "ops@example.com", "country": "DE"} | fields))
    who = identity.Who(actor=THIEF, confirmed_at=confirmed_at)
    return identity.change_profile(provider_id=provider.public_id, given=given, who=who, now=now)


@pytest.mark.parametrize(
    "fields", [{"legal_name": "Thief Ltd"}, {"country": "FR"}, {"contact_email": "thief@example.net"}]
)
def test_a_profile_that_money_goes_by_needs_the_second_factor(shop, now, fields):
    provider = shop.provider(earned_minor=0, now=now)
    Provider.objects.filter(pk=provider.pk).update(legal_name="Supplier AG")

    with pytest.raises(SecondFactorNeeded):
        rename(provider, now, confirmed_at=None, **fields)

    provider.refresh_from_db()
    assert (provider.legal_name, provider.country, provider.contact_email) == ("Supplier AG", "DE", "ops@example.com")


@pytest.mark.parametrize(
    ("fields", "rests"),
    [({"legal_name": "New AG"}, True), ({"country": "FR"}, True), ({"contact_email": "new@example.net"}, False)],
)
def test_old_and_new_hear_of_a_changed_profile(shop, now, fields, rests):
    provider = shop.provider(earned_minor=0, now=now)
    Provider.objects.filter(pk=provider.pk).update(legal_name="Supplier AG")
    Message.objects.all().delete()

    rename(provider, now, confirmed_at=now, **fields)

    row = DestinationChange.objects.get(kind="profile")
    assert (row.after, row.holds_until is not None) == (next(iter(fields.values())), rests)
    assert told() == {"ops@example.com", fields.get("contact_email", "ops@example.com")}


def test_a_profile_that_no_money_goes_by_is_changed_freely(now):
    provider = EarningProviderFactory()

    assert rename(provider, now, confirmed_at=None, legal_name="New AG").legal_name == "New AG"
    assert DestinationChange.objects.count() == 0


def test_saving_the_same_profile_is_no_change(shop, now):
    provider = shop.provider(earned_minor=0, now=now)

    rename(provider, now, confirmed_at=None, legal_name=provider.legal_name)

    assert DestinationChange.objects.filter(kind="profile").count() == 0


def test_a_held_payout_to_an_account_that_is_gone_is_canceled(shop, now):
    provider = shop.provider(earned_minor=2550, now=now)
    payout = shop.approved(provider, now=now)
    shop.double.control("account/bank", account=payout.destination, bank="DE00 new")
    accounts.refresh(provider_id=provider.public_id, now=now)
    PayoutAccount.objects.update(stripe_account="acct_another")

    assert destinations.resume_held(now=now + HOLD) == 1

    payout.refresh_from_db()
    assert (payout.state, balance_of("provider_available", provider.public_id)) == ("canceled", 25_500_000_000)
