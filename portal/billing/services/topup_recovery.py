"""Takes purchases back that a restored backup does not know: the rows as they were, then their credit."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction

from portal.accounts.models import Organization
from portal.audit.services import Actor
from portal.billing.models import StripeCustomer, TopUp, TopUpOrigin, TopUpState
from portal.billing.services import topup_books, topups
from portal.integrations.stripe_types import Checkout, Payment


@dataclass(frozen=True, slots=True)
class Bought:
    """A purchase as Stripe has it: its page, its payment, or both."""

    checkout: Checkout | None = None
    payment: Payment | None = None

    @property
    def reference(self) -> str:
        """Our row's public id."""
        return (self.payment.reference if self.payment else "") or (self.checkout.reference if self.checkout else "")

    @property
    def customer(self) -> str:
        """Stripe's customer."""
        return (self.payment.customer if self.payment else "") or (self.checkout.customer if self.checkout else "")

    @property
    def organization(self) -> str:
        """Whose it is, by its metadata."""
        told = self.payment.organization if self.payment else ""
        return told or (self.checkout.organization if self.checkout else "")


def owner_of(bought: Bought) -> str:
    """Return the public id of the organization that bought, known here or not; empty where nothing says."""
    if bought.organization:
        return bought.organization
    rows = StripeCustomer.objects.filter(stripe_customer=bought.customer).select_related("organization")
    row = rows.first() if bought.customer else None
    return row.organization.public_id if row else ""


def take_over(*, bought: Bought, actor: Actor, now: datetime) -> str:
    """Write the purchase's row where it is missing and bring it to where Stripe says it is; return what hinders it.

    Raises TopUpMismatch, PaymentError.
    """
    organization = Organization.objects.filter(public_id=owner_of(bought)).first()
    if organization is None:
        return "no organization of this pool bought it"
    if not bought.reference:
        return "it names no purchase of this pool"
    topup = TopUp.objects.filter(public_id=bought.reference).first() or _row(organization, bought, actor, now)
    _complete(topup, bought)
    if bought.payment is None:
        return ""
    settled = topups.fulfil(topup_id=topup.pk, now=now)
    return "" if settled.state == TopUpState.PAID else f"{settled.public_id} is {settled.state}: {settled.state_reason}"


def _row(organization: Organization, bought: Bought, actor: Actor, now: datetime) -> TopUp:
    checkout, payment = bought.checkout, bought.payment
    made_at = (payment.created_at if payment else None) or (checkout.created_at if checkout else None) or now
    amount = (checkout.amount_minor - checkout.tax_minor) if checkout else payment.amount_minor if payment else 0
    _customer(organization, bought.customer, now)
    card = payment.card.id if payment and payment.card and not checkout else ""
    with transaction.atomic():
        topup = TopUp.objects.create(
            public_id=bought.reference,
            organization=organization,
            amount_minor=amount,
            currency=settings.CURRENCY,
            origin=TopUpOrigin.AUTO if card else TopUpOrigin.CHECKOUT,
            card=card,
            state=TopUpState.OPEN if checkout else TopUpState.UNKNOWN,
            state_reason="taken over from Stripe after a backup was restored",
            stripe_customer=bought.customer,
            checkout_session=checkout.id if checkout else "",
            checkout_url=checkout.url if checkout else "",
            created_at=made_at,
            sent_at=made_at,
        )
        topup_books.record(topup, "topup.recovered", actor=actor, now=now)
    return topup


def _complete(topup: TopUp, bought: Bought) -> None:
    """Fill in what the backup did not know of a purchase that had just begun."""
    if topup.state == TopUpState.CREATED and bought.checkout is not None:
        TopUp.objects.filter(pk=topup.pk, state=TopUpState.CREATED).update(
            state=TopUpState.OPEN,
            stripe_customer=bought.customer,
            checkout_session=bought.checkout.id,
            checkout_url=bought.checkout.url,
        )


def _customer(organization: Organization, customer: str, now: datetime) -> None:
    """Remember which of Stripe's customers the organization is, where that is lost."""
    if not customer:
        return
    try:
        with transaction.atomic():
            row, _ = StripeCustomer.objects.get_or_create(
                organization=organization, defaults={"name": organization.name, "email": "", "created_at": now}
            )
            StripeCustomer.objects.filter(pk=row.pk, stripe_customer=None).update(stripe_customer=customer)
    except IntegrityError:
        # The customer belongs to another organization here: the purchase itself will say so as a mismatch.
        return
