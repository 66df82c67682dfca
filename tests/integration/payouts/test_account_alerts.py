"""Owners hear in time that their account at Stripe needs them: what is missing, until when, and what to do."""

from datetime import timedelta

import pytest

from portal.accounts.models import Role
from portal.notifications.models import Message
from portal.notifications.rendering import render
from portal.payouts.models import PayoutAccount
from portal.payouts.services import accounts
from tests.factories.accounts import MembershipFactory

pytestmark = pytest.mark.django_db

DAY_S = 86_400


@pytest.fixture
def provider(shop, now):
    """A provider with an owner and a working account."""
    found = shop.provider(earned_minor=0, now=now)
    MembershipFactory(organization=found.organization, role=Role.OWNER, user__email="owner@supply.example")
    return found


def move(shop, provider, now, name: str, **fields):
    """Let Stripe change the account, and read it."""
    shop.double.control("account", account=provider.payout_account.stripe_account, move=name, **fields)
    return accounts.refresh(provider_id=provider.public_id, now=now)


def mails() -> list[Message]:
    """Return what the owner got about the account, oldest first."""
    return list(Message.objects.filter(template="payout_account", to="owner@supply.example").order_by("pk"))


def test_something_due_is_told_with_what_and_by_when(shop, provider, now):
    due = shop.double.control("state")["now"] + 10 * DAY_S
    row = move(shop, provider, now, "remind", due_in_s=10 * DAY_S)

    (mail,) = mails()
    shown = render(mail)
    assert row.due_at is not None
    assert row.due_at.timestamp() == due
    days = (row.due_at - now).days
    assert shown.subject == f"Your account at Stripe: action required, {days} days left"
    assert "- a photo of an identity document" in shown.text
    assert f"By {row.due_at:%Y-%m-%d}: {days} days left." in shown.text


def test_the_same_news_is_told_once(shop, provider, now):
    move(shop, provider, now, "remind", due_in_s=60 * DAY_S)
    for _ in range(3):
        accounts.refresh(provider_id=provider.public_id, now=now)

    assert len(mails()) == 1


@pytest.mark.parametrize(
    ("left", "subject"), [(13, "13 days left"), (6, "6 days left"), (1, "1 day left"), (0, "due today")]
)
def test_a_deadline_is_remembered_as_it_comes_near(shop, provider, now, left, subject):
    row = move(shop, provider, now, "remind", due_in_s=60 * DAY_S)
    near = row.due_at - timedelta(days=left, hours=1)

    for _ in range(2):
        accounts.refresh(provider_id=provider.public_id, now=near)

    assert len(mails()) == 2
    assert render(mails()[1]).subject.endswith(subject)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("restrict", ("restricted", "restricted_other", "Stripe has stopped the account and does not say why.")),
        ("lapse", ("restricted", "requirements_past_due", "Details were not given in time.")),
        ("refuse", ("unsupported", "unsupported_business", "Stripe does not pay this kind of business.")),
        ("close", ("closed", "closed", "The account was closed.")),
    ],
)
def test_an_account_that_stops_is_told_with_code_cause_and_fix(shop, provider, now, name, told):
    row = move(shop, provider, now, name)

    (mail,) = mails()
    text, (state, code, cause) = render(mail).text, told
    assert (row.state, row.state_code) == (state, code)
    assert f"is: {state} ({code})" in text
    assert cause in text
    assert "What to do: " in text


def test_a_form_that_was_left_is_no_news(shop, now):
    found = shop.provider(earned_minor=0, now=now, action="leave")
    MembershipFactory(organization=found.organization, role=Role.OWNER, user__email="owner@supply.example")

    accounts.refresh(provider_id=found.public_id, now=now)

    assert (PayoutAccount.objects.get().state, mails()) == ("onboarding", [])
