"""Computes charges and statements again from what was delivered, so that anyone can check them."""

from dataclasses import dataclass
from uuid import UUID

from portal.billing.models import PriceVersion, Statement, UsagePosting
from portal.billing.rules import rating
from portal.billing.rules import statements as rules
from portal.billing.rules.periods import Period
from portal.billing.selectors import statements
from portal.billing.selectors.statements import Party
from portal.core.errors import NotFound
from portal.core.money import split_share
from portal.metering.models import DroppedDay, UsageRecord


@dataclass(frozen=True, slots=True)
class Charge:
    """One attempt's charge as it was recorded, as it was booked, and as the price version says it must be (nano)."""

    request_id: str
    attempt: int
    price_version: int
    lines: list[rating.CostLine]
    rated_nano: int
    hold_nano: int
    expected_nano: int
    recorded_nano: int
    booked_nano: int | None
    expected_provider_nano: int
    recorded_provider_nano: int
    withheld: str

    @property
    def is_right(self) -> bool:
        """Whether record and booking agree with the computation."""
        return (
            self.expected_nano == self.recorded_nano
            and self.expected_provider_nano == self.recorded_provider_nano
            and self.booked_nano in {None if self.recorded_nano == 0 else self.recorded_nano, self.recorded_nano}
        )


@dataclass(frozen=True, slots=True)
class Again:
    """A frozen statement and what its month comes to when it is computed again."""

    number: str
    frozen_sha256: str
    computed_sha256: str

    @property
    def is_right(self) -> bool:
        """Whether nothing has changed since."""
        return self.frozen_sha256 == self.computed_sha256


def request(*, request_id: UUID) -> list[Charge]:
    """Return every attempt of a request, computed again. Raises NotFound."""
    records = UsageRecord.objects.filter(request_id=request_id).defer("routing").order_by("opened_on", "attempt")
    charges = [_charge(record) for record in records]
    if not charges:
        raise NotFound(f"no usage of request {request_id} is stored")
    return charges


def statement(*, number: str) -> Again:
    """Compute a frozen statement's month again. Raises NotFound."""
    stored = Statement.objects.filter(number=number).first()
    if stored is None:
        raise NotFound(f"there is no statement {number}")
    dropped = DroppedDay.objects.filter(day__gte=stored.starts_at.date(), day__lt=stored.ends_at.date()).first()
    if dropped is not None:
        message = f"the usage records of {dropped.day} were dropped on {dropped.dropped_at:%Y-%m-%d}"
        raise NotFound(f"{message}: statement {number} stands as it was frozen and cannot be computed again")
    content = statements.content(
        party=Party(stored.kind, stored.party),
        period=Period(stored.starts_at, stored.ends_at),
        currency=stored.currency,
    )
    return Again(stored.number, stored.sha256, rules.digest(rules.to_json(content)))


def _charge(record: UsageRecord) -> Charge:
    price = PriceVersion.objects.filter(pk=record.price_version_id).first()
    if price is None:
        raise NotFound(f"price version {record.price_version_id} of request {record.request_id} does not exist")
    used = {"prompt": record.prompt_tokens, "cached": record.cached_tokens, "completion": record.completion_tokens}
    rated = rating.charge_nano(price=price, **used)
    is_counted = bool(record.charge_nano or record.prompt_tokens or record.completion_tokens)
    expected = min(rated, record.hold_nano) if is_counted else 0
    posting = UsagePosting.objects.filter(
        opened_on=record.opened_on, request_id=record.request_id, attempt=record.attempt
    ).first()
    return Charge(
        request_id=str(record.request_id),
        attempt=record.attempt,
        price_version=price.version,
        lines=rating.cost_lines(price=price, **used),
        rated_nano=rated,
        hold_nano=record.hold_nano,
        expected_nano=expected,
        recorded_nano=record.charge_nano,
        booked_nano=posting.charge_nano if posting else None,
        expected_provider_nano=split_share(expected, record.share_bps)[0],
        recorded_provider_nano=record.provider_nano,
        withheld=posting.withheld if posting else "",
    )
