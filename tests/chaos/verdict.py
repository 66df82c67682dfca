"""What the customers' journal and the portal's books must say of each other after any number of crashes."""

from collections import Counter, defaultdict
from dataclasses import asdict, dataclass, field

from portal.accounts.models import Organization
from portal.billing.models import CreditLease, LeaseState, LedgerAccount, UsagePosting
from portal.billing.services import lease_sweep, posting, reconcile
from portal.core import clock
from portal.core.money import decimal_text
from portal.metering.models import UsageRecord
from tests.chaos.customers import Asked


@dataclass
class Verdict:
    """The counts; all of the last six must be zero."""

    asked: int = 0
    answered: int = 0
    whole: int = 0
    records: int = 0
    charged_nano: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    doubled: int = 0
    differing: int = 0
    held_nano: int = 0
    open_leases: int = 0
    ledger_differences: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing is lost, doubled, different, held or open."""
        wrong = (self.lost, self.doubled, self.differing, self.held_nano, self.open_leases, self.ledger_differences)
        return not any(wrong)

    def as_row(self) -> dict[str, object]:
        """Return it for a line of JSON."""
        return asdict(self)


def settle() -> None:
    """Do what the worker does each second."""
    posting.post_all(now=clock.now())
    lease_sweep.sweep(now=clock.now())


def judge(*, journal: list[Asked], customer: Organization, paid_nano: int) -> Verdict:
    """Compare the journal with the records, the records with the ledger, and the ledger with itself."""
    settle()
    records = list(UsageRecord.objects.filter(organization_id=customer.pk))
    by_name: dict[str, list[UsageRecord]] = defaultdict(list)
    for record in records:
        by_name[record.client_request_id].append(record)
    charged = Counter(record.client_request_id for record in records if record.charge_nano)
    answered = [one for one in journal if one.status == 200]
    account = LedgerAccount.objects.get(code=f"customer_credit:{customer.public_id}")
    total = sum(record.charge_nano for record in records)
    missing = paid_nano - total - (account.credits - account.debits)
    posted = UsagePosting.objects.filter(request_id__in={row.request_id for row in records if row.charge_nano}).count()
    apart = (missing != 0) + abs(len(charged) - posted)
    requests = sum(_requests(rows) - 1 for rows in by_name.values() if rows)
    return Verdict(
        asked=len(journal),
        answered=len(answered),
        whole=sum(one.is_whole for one in answered),
        records=len(records),
        charged_nano=total,
        outcomes=dict(Counter(record.outcome for record in records)),
        lost=sum(_is_lost(one, by_name[one.name]) for one in answered),
        doubled=sum(count - 1 for count in charged.values()) + requests,
        differing=sum(_differs(one, by_name[one.name]) for one in answered) + apart,
        held_nano=account.held,
        open_leases=CreditLease.objects.filter(organization=customer).exclude(state=LeaseState.CLOSED).count(),
        ledger_differences=len(reconcile.differences(now=clock.now())),
    )


def _is_lost(one: Asked, records: list[UsageRecord]) -> bool:
    """A request that was answered has a record; one that was answered whole is charged."""
    return not records or (one.is_whole and not any(record.charge_nano for record in records))


def _differs(one: Asked, records: list[UsageRecord]) -> bool:
    """What a whole answer says it used and cost is what the record says."""
    if not one.is_whole:
        return False
    said = (one.usage["prompt_tokens"], one.usage["completion_tokens"], one.usage["cost"])
    return said not in {
        (record.prompt_tokens, record.completion_tokens, decimal_text(record.charge_nano)) for record in records
    }


def _requests(rows: list[UsageRecord]) -> int:
    return len({row.request_id for row in rows})
