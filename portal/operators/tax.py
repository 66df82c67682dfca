"""Operator pages: tax owed and paid, tax profiles, credit notes and the yearly export. Main route `operators:tax`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.billing.selectors import tax as selectors
from portal.billing.services import tax_bookings
from portal.billing.services.tax_bookings import TaxBooking
from portal.core import clock
from portal.core.amount_field import AmountField
from portal.core.errors import DomainError, InvalidValue
from portal.core.money import decimal_text
from portal.operators import ledger_queries as queries
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.rules import credit_note_pdf
from portal.payouts.selectors import credit_notes, tax_years
from portal.payouts.selectors.tax_years import ProviderYear
from portal.payouts.services import tax_profiles

_FIRST_YEAR = 2020
_HEADER = (
    "provider",
    "legal_name",
    "country",
    "status",
    "tax_name",
    "tax_country",
    "tax_id",
    "small_business",
    "year",
    "currency",
    "owed_at_start",
    "charged_to_customers",
    "pool_fee",
    "earned",
    "adjustments",
    "vat",
    "paid_out",
    "owed_at_end",
    "credit_notes",
)


class TaxForm(forms.Form):
    """What happened with the tax office."""

    booking = forms.ChoiceField(
        label="What happened",
        choices=[
            (TaxBooking.PAID.value, "Collected tax was paid to the tax office"),
            (TaxBooking.SETTLED.value, "The tax office paid back, or set off, VAT that was paid to providers"),
        ],
    )
    amount = AmountField(label="Amount")
    reference = forms.CharField(max_length=80, help_text="The period, or the tax office's reference; each counts once.")


@operator_page
def tax(request: OperatorRequest) -> HttpResponse:
    """Show tax by month, what is open, and what waits to be confirmed; a POST books a payment."""
    form = TaxForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            _book(request, form)
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "It is booked.")
            return redirect("operators:tax")
    now = clock.now()
    months = selectors.months()
    context = {
        "form": form,
        "months": months,
        "owed_nano": sum(row.collected_nano - row.discharged_nano for row in months),
        "input_nano": sum(row.input_nano - row.settled_nano for row in months),
        "to_confirm": credit_notes.to_confirm(),
        "year": now.year,
        "years": range(now.year, now.year - 4, -1),
    }
    return render(request, "operators/tax.html", context)


def _book(request: OperatorRequest, form: TaxForm) -> None:
    tax_bookings.book(
        booking=TaxBooking(form.cleaned_data["booking"]),
        amount_nano=form.cleaned_data["amount"],
        reference=form.cleaned_data["reference"],
        actor=request.actor,
        now=clock.now(),
    )


@require_POST
@operator_page
def confirm(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """Confirm a provider's tax profile as it was read."""
    try:
        read_at = datetime.fromisoformat(request.POST.get("changed_at", ""))
    except ValueError as error:
        raise InvalidValue("the form does not say which profile was read", param="changed_at") from error
    tax_profiles.confirm(provider_id=provider_id, changed_at=read_at, actor=request.actor, now=clock.now())
    messages.success(request, "The tax profile is confirmed.")
    return redirect("operators:tax")


@operator_page
def tax_year(request: OperatorRequest, year: int) -> HttpResponse:
    """Show each provider's year and the year's credit notes."""
    context = {
        "year": _known(year),
        "rows": tax_years.provider_years(year=year),
        "notes": credit_notes.newest(year=year),
    }
    return render(request, "operators/tax_year.html", context)


@operator_page
def tax_year_csv(request: OperatorRequest, year: int) -> HttpResponseBase:
    """Answer each provider's year as CSV. It is an export for whoever files, not a filing."""
    rows = tax_years.provider_years(year=_known(year))
    return queries.csv_file(name=f"providers-{year}.csv", header=_HEADER, rows=(_cells(row) for row in rows))


@operator_page
def credit_note(request: OperatorRequest, note: str) -> HttpResponse:
    """Answer a credit note as PDF."""
    found = credit_notes.note(note)
    return pdf_answer(found.number, credit_note_pdf.render(found.content, sha256=found.sha256))


def pdf_answer(name: str, body: bytes) -> HttpResponse:
    """Return a PDF to download."""
    headers = {"content-disposition": f'attachment; filename="{name}.pdf"'}
    return HttpResponse(body, content_type="application/pdf", headers=headers)


def _known(year: int) -> int:
    if not _FIRST_YEAR <= year <= clock.now().year:
        raise Http404("there is no such year")
    return year


def _cells(row: ProviderYear) -> tuple[object, ...]:
    profile = row.profile
    return (
        row.provider.public_id,
        row.provider.legal_name,
        row.provider.country,
        profile.status if profile else "",
        profile.name if profile else "",
        profile.country if profile else "",
        profile.tax_id if profile else "",
        "yes" if profile and profile.is_small_business else "no",
        row.year,
        row.currency,
        decimal_text(row.opening_nano),
        decimal_text(row.charged_nano),
        decimal_text(row.fee_nano),
        decimal_text(row.earned_nano),
        decimal_text(row.adjustments_nano),
        decimal_text(row.vat_nano),
        decimal_text(row.paid_nano),
        decimal_text(row.closing_nano),
        row.credit_notes,
    )


urlpatterns = [
    path("tax/", tax, name="tax"),
    path("tax/profiles/<str:provider_id>/confirm/", confirm, name="tax-confirm"),
    path("tax/notes/<str:note>.pdf", credit_note, name="credit-note"),
    path("tax/<int:year>/", tax_year, name="tax-year"),
    path("tax/<int:year>.csv", tax_year_csv, name="tax-year-csv"),
]
