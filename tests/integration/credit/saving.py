"""Customers who saved a card, and what they spend."""

from datetime import datetime

import httpx

from portal.accounts.models import Membership, Organization, Role
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import AutoTopUp, CustomerCard, TopUp
from portal.billing.rules.accounts import Kind
from portal.billing.services import auto_settings, ledger, topups
from portal.billing.services.auto_settings import AutoTerms
from portal.core import money
from portal.notifications.models import Message
from tests.factories.payouts import Shop, balance_of

VISA = "4242424242424242"
DECLINES = "4000000000000002"
LOST = "4000000000009987"
ASKS_EVERY_TIME = "4000002760003184"
CENT = 10_000_000


def pay(shop: Shop, topup: TopUp, *, card: str = VISA) -> None:
    """Pay on the hosted page with this card, and confirm where the bank asks."""
    answer = httpx.post(topup.checkout_url, data={"action": "pay", "card": card}, trust_env=False)
    assert answer.status_code == 303, answer.text
    if "/c/3ds/" in answer.headers["location"]:
        challenge = shop.double.url + answer.headers["location"]
        assert httpx.post(challenge, data={"action": "confirm"}, trust_env=False).status_code == 303


def customer(shop: Shop, *, now: datetime, card: str = VISA, amount: int = 1000) -> Organization:
    """Return an organization with an owner that bought credit and let the pool keep its card."""
    organization, user = shop.customer()
    Membership.objects.create(organization=organization, user=user, role=Role.OWNER, created_at=now)
    wanted = topups.Wanted(amount_minor=amount, client_key="first", created_by=user, saves_card=True)
    topup = topups.start_topup(organization=organization, wanted=wanted, actor=SYSTEM_ACTOR, now=now)
    pay(shop, topup, card=card)
    topups.fulfil(topup_id=topup.pk, now=now)
    return organization


def change_bank(shop: Shop, organization: Organization, card: str) -> None:
    """Let the saved card's bank behave like this test card's from now on."""
    method = CustomerCard.objects.get(organization=organization).stripe_card
    shop.double.control("card", payment_method=method, behaves_like=card)


def turn_on(
    organization: Organization, *, now: datetime, threshold: int = 500, amount: int = 2000, cap: int = 10_000
) -> AutoTopUp:
    """Let the pool charge the saved card."""
    saved = CustomerCard.objects.get(organization=organization)
    terms = AutoTerms(threshold_minor=threshold, amount_minor=amount, monthly_cap_minor=cap, card=saved.public_id)
    user = Membership.objects.get(organization=organization).user
    return auto_settings.turn_on(organization=organization, terms=terms, user=user, actor=SYSTEM_ACTOR, now=now)


def spend(organization: Organization, *, minor: int, now: datetime, key: str) -> None:
    """Use up paid credit."""
    credit = ledger.account(Kind.CUSTOMER_CREDIT, organization.public_id, currency="usd")
    revenue = ledger.account(Kind.PLATFORM_REVENUE, currency="usd")
    ledger.post(
        kind="test",
        key=f"test:{organization.public_id}:{key}",
        source_type="test",
        source_id=key,
        transfers=[ledger.Transfer(credit, revenue, money.nano_from_minor(minor, "usd"))],
        actor=SYSTEM_ACTOR,
        now=now,
    )


def credit_minor(organization: Organization) -> int:
    """Return the paid credit in minor units."""
    return balance_of("customer_credit", organization.public_id) // CENT


def autos(organization: Organization) -> list[TopUp]:
    """Return the automatic purchases, oldest first."""
    return list(TopUp.objects.filter(organization=organization, origin="auto").order_by("pk"))


def payments(shop: Shop, topup: TopUp) -> list[dict[str, object]]:
    """Return what the stand-in has taken for this purchase."""
    found = shop.double.store.all("payment_intent")
    return [one for one in found if one["metadata"].get("topup") == topup.public_id and one["status"] == "succeeded"]


def told(organization: Organization) -> list[str]:
    """Return which messages were written to the organization's people, in order."""
    rows = Message.objects.filter(key__contains=organization.public_id).order_by("pk")
    return list(rows.values_list("template", flat=True))
