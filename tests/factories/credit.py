"""Rows around credit: saved cards, bank transfers, terms of paying afterwards and their bills."""

from datetime import UTC, date, datetime

import factory
from factory.django import DjangoModelFactory

from portal.billing.models import BankTransfer, CustomerCard, Postpaid, PostpaidBill, Statement
from tests.factories.accounts import OrganizationFactory, UserFactory
from tests.factories.billing import OPENED

_MONTH = datetime(2026, 9, 1, tzinfo=UTC)
_NEXT = datetime(2026, 10, 1, tzinfo=UTC)


class CustomerCardFactory(DjangoModelFactory):
    """A saved card, as a row alone."""

    class Meta:
        model = CustomerCard

    organization = factory.SubFactory(OrganizationFactory)
    stripe_card = factory.Sequence(lambda n: f"pm_{n}")
    brand = "visa"
    last4 = "4242"
    exp_month = 12
    exp_year = 2030
    saved_at = OPENED


class BankTransferFactory(DjangoModelFactory):
    """A transfer that waits for another operator, as a row alone."""

    class Meta:
        model = BankTransfer

    organization = factory.SubFactory(OrganizationFactory)
    reference = factory.Sequence(lambda n: f"REF-{n}")
    amount_minor = 5000
    currency = "usd"
    received_on = date(2026, 10, 1)
    payer = "ACME GMBH"
    entered_by = factory.SubFactory(UserFactory, is_operator=True)
    entered_at = OPENED


class PostpaidFactory(DjangoModelFactory):
    """An offer to pay afterwards, as a row alone."""

    class Meta:
        model = Postpaid

    organization = factory.SubFactory(OrganizationFactory)
    limit_nano = 100_000_000_000
    due_days = 14
    offered_by = factory.SubFactory(UserFactory, is_operator=True)
    offered_at = OPENED


class StatementFactory(DjangoModelFactory):
    """A frozen statement, as a row alone."""

    class Meta:
        model = Statement

    number = factory.Sequence(lambda n: f"C-2026-09-{n:04d}")
    kind = "customer"
    party = factory.Sequence(lambda n: f"org_{n}")
    currency = "usd"
    starts_at = _MONTH
    ends_at = _NEXT
    content = factory.LazyFunction(dict)
    sha256 = "0" * 64
    frozen_at = _NEXT


class PostpaidBillFactory(DjangoModelFactory):
    """A bill, as a row alone."""

    class Meta:
        model = PostpaidBill

    organization = factory.SubFactory(OrganizationFactory)
    statement = factory.SubFactory(StatementFactory)
    starts_at = factory.Sequence(lambda n: _MONTH.replace(year=2000 + n % 1000, month=n % 12 + 1))
    ends_at = _NEXT
    drawn_nano = 5_000_000_000
    total_drawn_nano = 5_000_000_000
    due_nano = 5_000_000_000
    made_at = _NEXT
    due_at = _NEXT
