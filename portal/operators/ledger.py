"""Operator pages: accounts and their movements, the journal, one transaction. Main route `operators:ledger`."""

from collections.abc import Iterable, Iterator

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.urls import path

from portal.billing.models import LedgerTx
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import account_movements, journal, ledger_accounts
from portal.billing.selectors.account_movements import Movement
from portal.core import clock
from portal.core.money import decimal_text
from portal.operators import ledger_queries as queries
from portal.operators import ledger_sources
from portal.operators.access import OperatorRequest, operator_page
from portal.operators.ledger_queries import PAGE

JOURNAL_HEADER = (
    "tx",
    "effective_at",
    "booked_at",
    "kind",
    "key",
    "source_type",
    "source",
    "debit",
    "credit",
    "amount",
    "currency",
    "actor",
    "note",
)
_MOVEMENT_HEADER = (
    "effective_at",
    "booked_at",
    "tx",
    "kind",
    "source_type",
    "source",
    "counter_account",
    "amount",
    "balance",
    "note",
)


@operator_page
def ledger(request: OperatorRequest) -> HttpResponse:
    """Show the balance of each kind of account, and the accounts by kind or owner."""
    now = clock.now()
    kind, owner = queries.word(request, "kind"), queries.word(request, "owner")
    rows = ledger_accounts.accounts(
        now=now,
        kind=kind if kind in list(Kind) else "",
        owner=owner,
        after=queries.word(request, "after"),
        limit=PAGE + 1,
    )
    by_kind = [] if kind or owner else ledger_accounts.by_kind(now=now)
    context = {
        "by_kind": by_kind,
        "debit_nano": sum(row.debit_nano for row in by_kind),
        "credit_nano": sum(row.credit_nano for row in by_kind),
        "rows": rows[:PAGE],
        "kinds": [str(each) for each in Kind],
        "kind": kind,
        "owner": owner,
        "older": queries.query(request, "kind", "owner", after=rows[PAGE - 1].account.code) if len(rows) > PAGE else "",
        "newest": queries.query(request, "kind", "owner") or "?" if request.GET.get("after") else "",
    }
    return render(request, "operators/ledger.html", context)


@operator_page
def account(request: OperatorRequest, code: str) -> HttpResponse:
    """Show what moved one account, newest first, with the balance after each movement."""
    found = ledger_accounts.account(code)
    asked = _asked_movements(request)
    rows = account_movements.newest(
        account=found, asked=asked, before=queries.place_of_transfer(request), limit=PAGE + 1
    )
    page = rows[:PAGE]
    (balance,) = ledger_accounts.accounts(now=clock.now(), kind=found.kind, owner=found.owner, limit=1)
    context = {
        "account": found,
        "balance": balance,
        "asked": asked,
        "kinds": journal.kinds(),
        "rows": [(row, _link(row)) for row in page],
        "csv_query": queries.query(request, "first", "last", "kind", "owner"),
        "older": _older(request, page[-1]) if len(rows) > PAGE else "",
        "newest": queries.query(request, "first", "last", "kind", "owner") or "?" if request.GET.get("before") else "",
    }
    return render(request, "operators/account.html", context)


@operator_page
def account_csv(request: OperatorRequest, code: str) -> HttpResponseBase:
    """Answer what moved one account as CSV, oldest first, with full precision."""
    found = ledger_accounts.account(code)
    rows = account_movements.oldest(account=found, asked=_asked_movements(request))
    name = f"{found.code.replace(':', '-')}.csv"
    return queries.csv_file(name=name, header=_MOVEMENT_HEADER, rows=(_movement_cells(row) for row in rows))


@operator_page
def journal_page(request: OperatorRequest) -> HttpResponse:
    """Show transactions, newest first, by day, kind, owner or source."""
    asked = _asked_journal(request)
    rows = journal.newest(asked=asked, before=queries.place_of_tx(request), limit=PAGE + 1)
    names = ("first", "last", "kind", "owner", "source")
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    context = {
        "rows": rows[:PAGE],
        "kinds": journal.kinds(),
        "asked": asked,
        "csv_query": queries.query(request, *names),
        "older": queries.query(request, *names, before=f"{last.effective_at.isoformat()}_{last.pk}") if last else "",
        "newest": queries.query(request, *names) or "?" if request.GET.get("before") else "",
    }
    return render(request, "operators/journal.html", context)


@operator_page
def journal_csv(request: OperatorRequest) -> HttpResponseBase:
    """Answer every transfer of the same filter as CSV, oldest first, with full precision."""
    rows = journal.oldest(asked=_asked_journal(request))
    return queries.csv_file(name="journal.csv", header=JOURNAL_HEADER, rows=journal_cells(rows))


@operator_page
def transaction(request: OperatorRequest, tx_id: str) -> HttpResponse:
    """Show one transaction: its transfers, the usage it books, where it comes from, and what reverses it."""
    tx = get_object_or_404(LedgerTx.objects.select_related("reverses"), pk=tx_id)
    context = {
        "tx": tx,
        "source_link": ledger_sources.link(source_type=tx.source_type, source_id=tx.source_id),
        "transfers": tx.transfers.select_related("debit_account", "credit_account").order_by("seq"),
        "usage": tx.usage.order_by("opened_on", "request_id", "attempt")[:200],
        "usage_count": tx.usage.count(),
        "reversal": LedgerTx.objects.filter(reverses=tx).first(),
    }
    return render(request, "operators/transaction.html", context)


def journal_cells(rows: Iterable[LedgerTx]) -> Iterator[tuple[object, ...]]:
    """Yield one line of the journal's CSV a transfer."""
    for tx in rows:
        for part in tx.transfers.all():
            yield (
                tx.pk,
                tx.effective_at.isoformat(),
                tx.created_at.isoformat(),
                tx.kind,
                tx.idempotency_key,
                tx.source_type,
                tx.source_id,
                part.debit_account.code,
                part.credit_account.code,
                decimal_text(part.amount),
                part.currency,
                tx.actor,
                tx.note,
            )


def _movement_cells(row: Movement) -> tuple[object, ...]:
    return (
        row.at.isoformat(),
        row.booked_at.isoformat(),
        row.tx_id,
        row.kind,
        row.source_type,
        row.source_id,
        row.counter,
        decimal_text(row.amount_nano),
        "" if row.balance_nano is None else decimal_text(row.balance_nano),
        row.note,
    )


def _link(row: Movement) -> str:
    return ledger_sources.link(source_type=row.source_type, source_id=row.source_id, tx_id=row.tx_id)


def _older(request: HttpRequest, last: Movement) -> str:
    at, number = last.place
    return queries.query(request, "first", "last", "kind", "owner", before=f"{at.isoformat()}_{number}")


def _asked_movements(request: HttpRequest) -> account_movements.Asked:
    return account_movements.Asked(
        first=queries.day(request, "first"),
        last=queries.day(request, "last"),
        kind=queries.word(request, "kind"),
        owner=queries.word(request, "owner"),
    )


def _asked_journal(request: HttpRequest) -> journal.Asked:
    return journal.Asked(
        first=queries.day(request, "first"),
        last=queries.day(request, "last"),
        kind=queries.word(request, "kind"),
        owner=queries.word(request, "owner"),
        source=queries.word(request, "source"),
    )


urlpatterns = [
    path("ledger/", ledger, name="ledger"),
    path("ledger/accounts/<str:code>/", account, name="account"),
    path("ledger/accounts/<str:code>.csv", account_csv, name="account-csv"),
    path("ledger/journal/", journal_page, name="journal"),
    path("ledger/journal.csv", journal_csv, name="journal-csv"),
    path("ledger/journal/<uuid:tx_id>/", transaction, name="transaction"),
]
