"""A small world around Stripe: a running stand-in, the settings that point at it, and people who buy and earn."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from unittest.mock import patch

import factory
import httpx
from django.test import Client, override_settings
from django.urls import reverse
from factory.django import DjangoModelFactory
from stripe import HTTPClient

from portal.accounts.models import Organization, User
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerAccount, ProviderAdjustment, TopUp
from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger, topups
from portal.core import money, sealing
from portal.integrations import stripe
from portal.payouts.models import BankAccount, Payout, PayoutAttempt, PayoutRun
from portal.payouts.rules.bank_details import BankDetails
from portal.payouts.services import accounts, approvals, drafts
from portal.payouts.services.bank_accounts import PURPOSE
from portal.providers.models import Provider
from portal.sandbox.stripe_double.events import CONNECT, PLATFORM, THIN
from portal.sandbox.stripe_double.hooks import Delivery, Endpoint
from portal.sandbox.stripe_double.server import Options, StripeDouble
from tests.factories.accounts import OrganizationFactory, UserFactory
from tests.factories.billing import OPENED, EarningProviderFactory, paid_in

DAY_S = 86_400
IBAN = BankDetails("iban", "DE89370400440532013000", "COBADEFFXXX", "DE")
SECRETS = {PLATFORM: "whsec_platform", CONNECT: "whsec_connect", THIN: "whsec_events"}
PATHS = {PLATFORM: "/webhooks/stripe/", CONNECT: "/webhooks/stripe/connect/", THIN: "/webhooks/stripe/events/"}


def stripe_settings(double: StripeDouble, *, currency: str = "usd") -> dict[str, object]:
    """Return the settings of a pool that talks to this stand-in."""
    return {
        "STRIPE_API_KEY": "sk_test_pool",
        "STRIPE_API_BASE": double.url,
        "STRIPE_WEBHOOK_SECRET": SECRETS[PLATFORM],
        "STRIPE_CONNECT_WEBHOOK_SECRET": SECRETS[CONNECT],
        "STRIPE_EVENTS_SECRET": SECRETS[THIN],
        "STRIPE_TIMEOUT_S": 1,
        "CURRENCY": currency,
        "PAYOUT_MINIMUM_MINOR": 100,
        "PAYOUT_APPROVERS": 1,
        "PUBLIC_URL": "http://testserver",
    }


@dataclass(slots=True)
class Shop:
    """The stand-in and the few things people do with it."""

    double: StripeDouble
    currency: str = "usd"

    def customer(self) -> tuple[Organization, User]:
        """Return an organization that can buy, and its person."""
        return OrganizationFactory(), UserFactory()

    def start(self, organization: Organization, user: User, *, amount: int, now: datetime, key: str = "k") -> TopUp:
        """Open a purchase."""
        return topups.start_topup(
            organization=organization,
            wanted=topups.Wanted(amount_minor=amount, client_key=key, created_by=user),
            actor=SYSTEM_ACTOR,
            now=now,
        )

    def post_page(self, url: str, action: str) -> str:
        """Press a button on a hosted page, as a browser would; return where it leads."""
        answer = httpx.post(url, data={"action": action}, trust_env=False)
        assert answer.status_code in {303, 402}, answer.text
        return answer.headers.get("location", "")

    def buy(self, *, amount: int, now: datetime, key: str = "k") -> TopUp:
        """Buy credit from a fresh organization, up to the payment; nobody here has heard of it yet."""
        organization, user = self.customer()
        topup = self.start(organization, user, amount=amount, now=now, key=key)
        self.post_page(topup.checkout_url, "pay")
        return topup

    def provider(self, *, earned_minor: int, now: datetime, action: str = "complete") -> Provider:
        """Return a provider with matured earnings, whose account went through Stripe's form."""
        provider: Provider = EarningProviderFactory()
        if earned_minor:
            earn(provider, minor=earned_minor, now=now, currency=self.currency)
        if action:
            self.onboard(provider, action=action, now=now)
        return Provider.objects.select_related("organization").get(pk=provider.pk)

    def onboard(self, provider: Provider, *, action: str, now: datetime) -> str:
        """Walk through Stripe's form and come back; return the account's id."""
        url = accounts.start_onboarding(
            provider=provider,
            return_url="http://testserver/return",
            refresh_url="http://testserver/refresh",
            actor=SYSTEM_ACTOR,
            now=now,
            confirmed_at=now,
        )
        self.post_page(url, action)
        return accounts.refresh(provider_id=provider.public_id, now=now).stripe_account or ""

    def fund(self, minor: int) -> None:
        """Give the platform available money at Stripe."""
        self.double.control("fund", amount=minor, currency=self.currency)

    def approved(self, provider: Provider, *, now: datetime) -> Payout:
        """Draft a run and approve this provider's payout."""
        run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)
        payout = next(one for one in run.payouts if one.provider_id == provider.pk)
        operator = UserFactory(is_operator=True)
        return approvals.approve(payout_public_id=payout.public_id, approver=operator, actor=SYSTEM_ACTOR, now=now)

    def transfers(self, payout: Payout) -> list[dict[str, object]]:
        """Return what the stand-in has for this payout."""
        return [one for one in self.double.store.all("transfer") if one["transfer_group"] == payout.public_id]

    def deliver(self, delivery: Delivery) -> int:
        """Hand one webhook to the portal; return its answer."""
        answer = Client().post(
            PATHS[delivery.endpoint],
            data=delivery.body,
            content_type="application/json",
            headers={"stripe-signature": delivery.headers["Stripe-Signature"]},
        )
        if answer.status_code < 300:
            self.double.hooks.done(delivery.number)
        return answer.status_code

    def deliver_all(self) -> list[int]:
        """Hand every waiting webhook to the portal in order."""
        return [self.deliver(one) for one in self.double.pending()]


class TopUpFactory(DjangoModelFactory):
    """A paid purchase, as a row alone."""

    class Meta:
        model = TopUp

    organization = factory.SubFactory(OrganizationFactory)
    amount_minor = 5000
    currency = "usd"
    state = "paid"
    fee_minor = 175
    created_at = OPENED
    paid_at = OPENED


class PayoutFactory(DjangoModelFactory):
    """A payout that an operator may approve, as a row with its attempt alone."""

    class Meta:
        model = Payout
        skip_postgeneration_save = True

    provider = factory.SubFactory(EarningProviderFactory)
    currency = "usd"
    period_start = OPENED
    period_end = factory.Sequence(lambda n: OPENED + timedelta(days=1, seconds=n))
    amount_minor = 2550
    destination = "acct_test"
    state = "reserved"
    created_at = OPENED
    changed_at = OPENED
    attempt = factory.RelatedFactory("tests.factories.payouts.AttemptFactory", factory_related_name="payout")


class PayoutRunFactory(DjangoModelFactory):
    """A run without payouts."""

    class Meta:
        model = PayoutRun

    origin = "operator"
    currency = "usd"
    created_at = OPENED
    created_by = "system"


class AdjustmentFactory(DjangoModelFactory):
    """A claw-back that waits for another operator."""

    class Meta:
        model = ProviderAdjustment

    provider = factory.SubFactory(EarningProviderFactory)
    kind = "clawback"
    reason = "fraud"
    note = "The node served a smaller model than it was asked for."
    amount_nano = 1_000_000_000
    currency = "usd"
    proposed_by = factory.SubFactory(UserFactory, is_operator=True)
    proposed_at = OPENED


class AttemptFactory(DjangoModelFactory):
    """The first attempt of a payout."""

    class Meta:
        model = PayoutAttempt

    payout = factory.SubFactory(PayoutFactory, attempt=None)
    number = 1
    idempotency_key = factory.LazyAttribute(lambda attempt: f"payout:{attempt.payout.public_id}:{attempt.number}")
    params = factory.LazyAttribute(
        lambda attempt: {
            "amount_minor": attempt.payout.amount_minor,
            "currency": attempt.payout.currency,
            "destination": attempt.payout.destination,
            "group": attempt.payout.public_id,
            "payout": attempt.payout.public_id,
            "provider": attempt.payout.provider.public_id,
        }
    )
    created_at = OPENED


def earn(provider: Provider, *, minor: int, now: datetime, currency: str = "usd", key: str = "1") -> LedgerAccount:
    """Book matured earnings; return the credit of the customer who paid for them."""
    amount = money.nano_from_minor(minor, currency)
    owner = provider.public_id
    credit = ledger.account(Kind.CUSTOMER_CREDIT, OrganizationFactory().public_id, currency=currency)
    available = ledger.account(Kind.PROVIDER_AVAILABLE, owner, currency=currency)
    ledger.post(
        kind="topup",
        key=f"topup:earn:{owner}:{key}",
        source_type="topup",
        source_id=key,
        transfers=paid_in(organization=credit.owner, net=amount, currency=currency),
        actor=SYSTEM_ACTOR,
        now=now,
    )
    ledger.post(
        kind="maturity",
        key=f"maturity:earn:{owner}:{key}",
        source_type="test",
        source_id=key,
        transfers=[ledger.Transfer(credit, available, amount)],
        actor=SYSTEM_ACTOR,
        now=now,
    )
    return credit


@contextmanager
def running_double(*, has_sender: bool = False, currency: str = "usd") -> Iterator[StripeDouble]:
    """Run a stand-in on a free port; fail where any request or answer broke Stripe's rules."""
    endpoints = {name: Endpoint(f"http://testserver{PATHS[name]}", SECRETS[name]) for name in SECRETS}
    double = StripeDouble(Options(has_sender=has_sender, currency=currency, endpoints=endpoints, seed=None)).start()
    try:
        yield double
    finally:
        summary = double.stop()
        assert double.engine.violations == [], summary


@contextmanager
def open_shop(*, currency: str = "usd") -> Iterator[Shop]:
    """Run a stand-in and point the pool at it; lost calls are tried again at once."""
    with (
        running_double(currency=currency) as double,
        override_settings(**stripe_settings(double, currency=currency)),
        # The SDK reads it of its own class, whatever a transport of ours says.
        patch.object(HTTPClient, "INITIAL_DELAY", 0.01),
    ):
        try:
            yield Shop(double, currency)
        finally:
            stripe.forget_connections()


def balance_of(kind: str, owner: str = "", *, currency: str = "usd") -> int:
    """Return an account's balance in nano units."""
    return ledger.balance(ledger.account(kind, owner, currency=currency))


def topup_url(topup: TopUp) -> str:
    """Return the page that Stripe leads the buyer back to."""
    return reverse("customer:topup", args=[topup.public_id])


class BankAccountFactory(DjangoModelFactory):
    """Bank details that wait for an operator's check."""

    class Meta:
        model = BankAccount

    provider = factory.SubFactory(EarningProviderFactory)
    scheme = "iban"
    holder = "Supplier AG"
    country = "DE"
    currency = "usd"
    details = factory.LazyFunction(lambda: sealing.seal(IBAN.text, purpose=PURPOSE))
    last4 = IBAN.last4
    fingerprint = factory.LazyFunction(lambda: sealing.fingerprints(IBAN.identity, purpose=PURPOSE)[0])
    given_by = "user_supplier"
    given_at = OPENED
