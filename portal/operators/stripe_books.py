"""Operator pages: Stripe's own books against the ledger, and what nobody explained. Route `operators:stripe-books`."""

from django import forms
from django.contrib import messages
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.billing.models import StripeMovement
from portal.billing.rules import stripe_kinds
from portal.billing.rules.stripe_kinds import Booking
from portal.billing.services import stripe_bookings
from portal.core import clock
from portal.integrations.stripe_errors import PaymentError
from portal.operators import ledger_queries as queries
from portal.operators import ledger_sources
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.selectors import stripe_books as selectors
from portal.payouts.services import stripe_books

_SHOWN = 200


class BookingForm(forms.Form):
    """What an unexplained line is."""

    booking = forms.ChoiceField(label="What it is")
    note = forms.CharField(max_length=240, help_text="Why you know; it stands in the journal.")

    def __init__(self, *args: object, row: StripeMovement, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed on as they came
        field = self.fields["booking"]
        allowed = stripe_kinds.choices(net_minor=row.net_minor)
        field.choices = [(each.value, stripe_kinds.WORDS[each]) for each in allowed]  # type: ignore[attr-defined]  # a ChoiceField


@operator_page
def stripe_books_page(request: OperatorRequest) -> HttpResponse:
    """Show what lies at Stripe by both books, what differs, what is unmatched, and one line where it is asked for."""
    wanted = queries.word(request, "line")
    found = StripeMovement.objects.filter(Q(stripe_id=wanted) | Q(source=wanted)) if wanted else None
    lines = found.order_by("-moved_at", "-id")[:50] if found is not None else selectors.booked()
    last = StripeMovement.objects.order_by("-seen_at").first()
    context = {
        "unmatched": selectors.unmatched(),
        "gaps": [
            (gap, ledger_sources.link(source_type=gap.source_type, source_id=gap.source_id))
            for gap in selectors.gaps(limit=_SHOWN)
        ],
        "lines": lines,
        "wanted": wanted,
        "ours_nano": selectors.ours_nano(),
        "last_line_at": last.seen_at if last else None,
    }
    return render(request, "operators/stripe_books.html", context)


@require_POST
@operator_page
def refresh(request: OperatorRequest) -> HttpResponse:
    """Read Stripe's books now."""
    try:
        done = stripe_books.sync(now=clock.now())
    except PaymentError as error:
        messages.error(request, f"Stripe could not be asked ({error.code}): {error.message}")
    else:
        messages.success(request, f"{done.new} new lines, {done.matched} matched, {done.booked} booked by themselves.")
    return redirect("operators:stripe-books")


@operator_page
def book(request: OperatorRequest, line: str) -> HttpResponse:
    """Ask what an unexplained line is, and book it as that."""
    row = get_object_or_404(StripeMovement, stripe_id=line)
    form = BookingForm(request.POST or None, row=row)
    if request.method == "POST" and form.is_valid():
        stripe_bookings.book(
            movement_id=row.pk,
            booking=Booking(form.cleaned_data["booking"]),
            note=form.cleaned_data["note"],
            actor=request.actor,
            now=clock.now(),
        )
        messages.success(request, f"{row.stripe_id} is booked.")
        return redirect("operators:stripe-books")
    return render(request, "operators/stripe_book.html", {"row": row, "form": form})


urlpatterns = [
    path("ledger/stripe/", stripe_books_page, name="stripe-books"),
    path("ledger/stripe/refresh/", refresh, name="stripe-books-refresh"),
    path("ledger/stripe/<str:line>/", book, name="stripe-book"),
]
