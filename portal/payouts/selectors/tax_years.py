"""A calendar year (UTC) of each provider for whoever files: an export, not a filing."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from django.conf import settings

from portal.billing.rules.accounts import PROVIDER_KINDS, Kind
from portal.billing.rules.books import GROUPS, Group
from portal.billing.selectors import sums, tax
from portal.payouts.models import CreditNote, TaxProfile
from portal.providers.models import Provider


@dataclass(frozen=True, slots=True)
class ProviderYear:
    """What a provider's year came to, in nano units: opening + earned + adjustments + vat - paid = closing.

    `charged` less `earned` is the pool's fee; `adjustments` are everything else that the pool gave or took.
    """

    provider: Provider
    profile: TaxProfile | None
    year: int
    currency: str
    opening_nano: int
    charged_nano: int
    earned_nano: int
    adjustments_nano: int
    vat_nano: int
    paid_nano: int
    closing_nano: int
    credit_notes: int

    @property
    def fee_nano(self) -> int:
        """The pool's part of what customers were charged."""
        return self.charged_nano - self.earned_nano


def provider_years(*, year: int) -> list[ProviderYear]:
    """Return every provider whose accounts moved in the year, by public id."""
    first, until = datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
    parts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for row in tax.moved_by_provider(kinds=PROVIDER_KINDS, first=first, until=until):
        parts[row.provider][_part(row)] += row.nano
    charged = tax.charged_by_provider(kinds=PROVIDER_KINDS, first=first, until=until)
    opening, closing = _positions(first), _positions(until)
    providers = {row.public_id: row for row in Provider.objects.filter(public_id__in=parts)}
    profiles = {row.provider_id: row for row in TaxProfile.objects.filter(provider__in=providers.values())}
    notes = _notes(year)
    return [
        ProviderYear(
            provider=providers[name],
            profile=profiles.get(providers[name].pk),
            year=year,
            currency=settings.CURRENCY,
            opening_nano=opening.get(name, 0),
            charged_nano=charged.get(name, 0),
            earned_nano=parts[name]["earned"],
            adjustments_nano=parts[name]["adjustments"],
            vat_nano=parts[name]["vat"],
            paid_nano=-parts[name]["paid"],
            closing_nano=closing.get(name, 0),
            credit_notes=notes.get(name, 0),
        )
        for name in sorted(providers)
    ]


def _part(row: tax.Moved) -> str:
    if row.counter == Kind.INPUT_VAT:
        return "vat"
    if GROUPS[row.counter] == Group.MONEY and row.counter != Kind.FROZEN:
        return "paid"
    return "earned" if row.is_usage else "adjustments"


def _positions(at: datetime) -> dict[str, int]:
    """Return what each provider was owed at a moment, less what it owed."""
    found: dict[str, int] = defaultdict(int)
    for row in sums.sums_at(at=at):
        if row.kind in PROVIDER_KINDS:
            found[row.owner] += row.credits - row.debits
    return found


def _notes(year: int) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for name in CreditNote.objects.filter(year=year).values_list("provider__public_id", flat=True):
        found[name] += 1
    return found
