"""Operator pages: the ledger. The main page's route is named `operators:ledger`."""

from dataclasses import asdict
from urllib.parse import urlencode

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import path

from portal.billing.models import LedgerTx
from portal.billing.rules.accounts import Kind
from portal.billing.rules.export import csv_text
from portal.billing.selectors import transactions
from portal.core.money import decimal_text
from portal.operators.access import OperatorRequest, operator_page

_PAGE = 50
_LAST_PAGE = 10_000


@operator_page
def ledger(request: OperatorRequest) -> HttpResponse:
    """Show the trial balance and the accounts, by kind or owner."""
    kind, owner = request.GET.get("kind", ""), request.GET.get("owner", "").strip()
    number = _page(request)
    rows = transactions.accounts(
        kind=kind if kind in list(Kind) else "", owner=owner, limit=_PAGE + 1, offset=number * _PAGE
    )
    context = {
        "trial": transactions.trial_balance(),
        "rows": rows[:_PAGE],
        "kinds": [str(each) for each in Kind],
        "kind": kind,
        "owner": owner,
        **_pager({name: value for name, value in {"kind": kind, "owner": owner}.items() if value}, number, len(rows)),
    }
    return render(request, "operators/ledger.html", context)


@operator_page
def journal(request: OperatorRequest) -> HttpResponse:
    """Show transactions, newest first, by kind, account or source."""
    asked = _asked(request)
    number = _page(request)
    rows = list(transactions.journal(asked=asked, limit=_PAGE + 1, offset=number * _PAGE))
    context = {
        "rows": rows[:_PAGE],
        "kinds": transactions.kinds(),
        "asked": asked,
        "csv_query": urlencode(_given(asked)),
        **_pager(_given(asked), number, len(rows)),
    }
    return render(request, "operators/journal.html", context)


@operator_page
def journal_csv(request: OperatorRequest) -> HttpResponse:
    """Answer the last 10,000 transfers of the same filter as CSV, with full precision."""
    found = transactions.journal(asked=_asked(request), limit=10_000)
    text = csv_text(
        header=[
            "tx",
            "effective_at",
            "kind",
            "key",
            "source",
            "debit",
            "credit",
            "amount",
            "currency",
            "actor",
            "note",
        ],
        rows=(
            (
                tx.pk,
                tx.effective_at.isoformat(),
                tx.kind,
                tx.idempotency_key,
                tx.source_id,
                part.debit_account.code,
                part.credit_account.code,
                decimal_text(part.amount),
                part.currency,
                tx.actor,
                tx.note,
            )
            for tx in found
            for part in tx.transfers.all()
        ),
    )
    return HttpResponse(
        text,
        content_type="text/csv; charset=utf-8",
        headers={"content-disposition": 'attachment; filename="ledger.csv"'},
    )


@operator_page
def transaction(request: OperatorRequest, tx_id: str) -> HttpResponse:
    """Show one transaction: its transfers, the usage it books, and what reverses it."""
    tx = get_object_or_404(LedgerTx.objects.select_related("reverses"), pk=tx_id)
    context = {
        "tx": tx,
        "transfers": tx.transfers.select_related("debit_account", "credit_account").order_by("seq"),
        "usage": tx.usage.order_by("opened_on", "request_id", "attempt")[:200],
        "usage_count": tx.usage.count(),
        "reversal": LedgerTx.objects.filter(reverses=tx).first(),
    }
    return render(request, "operators/transaction.html", context)


def _asked(request: HttpRequest) -> transactions.Asked:
    return transactions.Asked(
        kind=request.GET.get("kind", "").strip(),
        account=request.GET.get("account", "").strip(),
        source=request.GET.get("source", "").strip(),
    )


def _given(asked: transactions.Asked) -> dict[str, str]:
    return {name: value for name, value in asdict(asked).items() if value}


def _page(request: HttpRequest) -> int:
    text = request.GET.get("page", "0")
    if not (text.isascii() and text.isdigit()) or int(text) > _LAST_PAGE:
        raise Http404("there is no such page")
    return int(text)


def _pager(asked: dict[str, str], number: int, found: int) -> dict[str, str]:
    return {
        "next": "?" + urlencode(asked | {"page": str(number + 1)}) if found > _PAGE else "",
        "previous": "?" + urlencode(asked | {"page": str(number - 1)}) if number else "",
    }


urlpatterns = [
    path("ledger/", ledger, name="ledger"),
    path("ledger/journal/", journal, name="journal"),
    path("ledger/journal.csv", journal_csv, name="journal-csv"),
    path("ledger/journal/<uuid:tx_id>/", transaction, name="transaction"),
]
