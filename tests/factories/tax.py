"""Tax profiles, credit notes and lines of Stripe's books."""

import factory
from factory.django import DjangoModelFactory

from portal.billing.models import StripeMovement
from portal.payouts.models import CreditNote, Payout, TaxProfile
from portal.payouts.rules import credit_notes as rules
from portal.providers.models import Provider
from tests.factories.billing import OPENED, EarningProviderFactory
from tests.factories.payouts import PayoutFactory


class StripeMovementFactory(DjangoModelFactory):
    """A line that nothing here explains: Stripe corrected something by ten dollars."""

    class Meta:
        model = StripeMovement

    stripe_id = factory.Sequence(lambda n: f"txn_{n}")
    type = "adjustment"
    amount_minor = -1000
    fee_minor = 0
    net_minor = factory.LazyAttribute(lambda row: row.amount_minor - row.fee_minor)
    currency = "usd"
    source = ""
    moved_at = OPENED
    seen_at = OPENED


class TaxProfileFactory(DjangoModelFactory):
    """A German business with 19 per cent VAT, confirmed, that lets the pool write its invoices."""

    class Meta:
        model = TaxProfile

    provider = factory.SubFactory(EarningProviderFactory)
    status = "business"
    name = "Supplier AG"
    address = "Hauptstrasse 1\n10115 Berlin"
    country = "DE"
    tax_id = "DE136695976"
    vat_rate_bps = 1900
    confirmed_at = OPENED
    confirmed_by = "user_operator"
    consent_version = "1"
    consented_at = OPENED
    consented_by = "user_owner"
    changed_at = OPENED


def credit_note(provider: Provider, payout: Payout | None = None) -> CreditNote:
    """Write a credit note as a row alone."""
    payout = payout or Payout.objects.filter(provider=provider).first() or PayoutFactory(provider=provider)
    sequence = CreditNote.objects.count() + 1
    facts = rules.Facts(
        number=rules.number(year=2026, sequence=sequence),
        issued_at=OPENED,
        corrects="",
        issuer={"name": "Pool GmbH", "address": "Weg 1", "country": "DE", "tax_id": "DE1"},
        supplier={"name": provider.legal_name, "address": "Weg 2", "country": "DE", "tax_id": "", "consented_at": ""},
        payout=payout.public_id,
        transfer="tr_1",
        period_start=payout.period_start,
        period_end=payout.period_end,
        currency=payout.currency,
        treatment="private",
        rate_bps=0,
        decimals=2,
        fee_minor=0,
    )
    content = rules.content(facts, net_minor=payout.amount_minor, vat_minor=0)
    return CreditNote.objects.create(
        issuer="Pool GmbH",
        year=2026,
        sequence=sequence,
        number=facts.number,
        provider=provider,
        payout=payout,
        key=f"note:{payout.public_id}:{sequence}",
        currency=payout.currency,
        net_minor=payout.amount_minor,
        vat_minor=0,
        content=content,
        sha256=rules.digest(content),
        issued_at=OPENED,
    )
