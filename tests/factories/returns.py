"""Rows of money that goes back, and of what is known of customers."""

import factory
from factory.django import DjangoModelFactory

from portal.billing.models import Dispute, FraudWarning, Refund, RelatedPair
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import OPENED
from tests.factories.payouts import TopUpFactory


class RefundFactory(DjangoModelFactory):
    """A refund that was asked for, as a row alone."""

    class Meta:
        model = Refund

    topup = factory.SubFactory(TopUpFactory)
    organization = factory.SelfAttribute("topup.organization")
    charge = "ch_test"
    amount_minor = 1000
    currency = "usd"
    origin = "customer"
    state = "requested"
    created_at = OPENED
    changed_at = OPENED


class DisputeFactory(DjangoModelFactory):
    """An open dispute, as a row alone."""

    class Meta:
        model = Dispute

    stripe_dispute = factory.Sequence(lambda n: f"du_test_{n}")
    topup = factory.SubFactory(TopUpFactory)
    organization = factory.SelfAttribute("topup.organization")
    charge = "ch_test"
    status = "needs_response"
    reason = "fraudulent"
    amount_minor = 5000
    currency = "usd"
    opened_at = OPENED
    seen_at = OPENED


class FraudWarningFactory(DjangoModelFactory):
    """A warning that nobody has decided on, as a row alone."""

    class Meta:
        model = FraudWarning

    stripe_warning = factory.Sequence(lambda n: f"issfr_test_{n}")
    topup = factory.SubFactory(TopUpFactory)
    organization = factory.SelfAttribute("topup.organization")
    charge = "ch_test"
    type = "made_with_stolen_card"
    is_actionable = True
    warned_at = OPENED
    noted_at = OPENED


class RelatedPairFactory(DjangoModelFactory):
    """A suspected pair."""

    class Meta:
        model = RelatedPair

    low = factory.SubFactory(OrganizationFactory)
    high = factory.SubFactory(OrganizationFactory)
    kinds = ["address"]
    found = "suspected"
    found_at = OPENED
    changed_at = OPENED
