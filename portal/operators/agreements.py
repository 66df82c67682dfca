"""Operator pages: what single organizations pay in place of the public price. Route `operators:agreements`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path

from portal.accounts.models import Organization
from portal.billing.models import PriceVersion
from portal.billing.price_form import TermsForm
from portal.billing.selectors import price_previews
from portal.billing.selectors import prices as price_selectors
from portal.billing.services import price_ends
from portal.billing.services import prices as price_services
from portal.billing.services.prices import Agreed
from portal.catalog.models import CatalogModel
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.operators.access import OperatorRequest, operator_page
from portal.operators.prices import EndForm


class AgreementForm(TermsForm):
    """Whose price of which model, from when, and until when."""

    field_order = ["organization", "model"]
    organization = forms.CharField(max_length=40, help_text="Its id; it begins with org_.")
    model = forms.ModelChoiceField(CatalogModel.objects.none(), to_field_name="public_id")
    effective_from = MomentField(help_text="Leave empty for now. Running requests keep the price they began with.")
    effective_until = MomentField(
        label="Until (UTC)", help_text="Leave empty for until further notice. Then the public price holds again."
    )

    def clean_organization(self) -> Organization:
        """Find the organization."""
        found = Organization.objects.filter(public_id=self.cleaned_data["organization"].strip()).first()
        if found is None:
            raise forms.ValidationError("There is no organization with this id.")
        return found


def _form(request: OperatorRequest) -> AgreementForm:
    form = AgreementForm(request.POST or None, initial=request.GET.dict())
    choice = form.fields["model"]
    if isinstance(choice, forms.ModelChoiceField):
        choice.queryset = CatalogModel.objects.order_by("public_id")
    return form


@operator_page
def agreements(request: OperatorRequest) -> HttpResponse:
    """List agreed prices; preview a new one on the organization's last 30 days, then set it."""
    now = clock.now()
    form = _form(request)
    past = None
    if request.method == "POST" and form.is_valid():
        if "confirm" in request.POST and _agree(request, form, now):
            return redirect("operators:agreements")
        past = price_previews.preview(
            model_id=form.cleaned_data["model"].pk,
            terms=form.terms(),
            now=now,
            organization_id=form.cleaned_data["organization"].pk,
        )
    held = price_selectors.overrides_in_force(at=now)
    rows = [(row, row if row.pk in held else None) for row in price_selectors.overrides()]
    context = {"rows": rows, "form": form, "past": past, "now": now}
    return render(request, "operators/agreements.html", context)


@operator_page
def end(request: OperatorRequest, version_id: int) -> HttpResponse:
    """Let the public price hold again from now on, after asking for the reason."""
    rows = PriceVersion.objects.exclude(organization=None).select_related("model", "organization")
    version = get_object_or_404(rows, pk=version_id)
    form = EndForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        reason = form.cleaned_data["reason"]
        try:
            price_ends.end_agreement(version_id=version.pk, reason=reason, actor=request.actor, now=clock.now())
        except DomainError as refusal:
            form.add_error(None, refusal.sentences)
        else:
            messages.success(request, "The public price holds again.")
            return redirect("operators:agreements")
    return render(request, "operators/agreement_end.html", {"version": version, "form": form})


def _agree(request: OperatorRequest, form: AgreementForm, now: datetime) -> bool:
    agreed = Agreed(form.cleaned_data["organization"], form.cleaned_data["effective_until"])
    try:
        version = price_services.set_price(
            model=form.cleaned_data["model"],
            terms=form.terms(),
            actor=request.actor,
            now=now,
            effective_from=form.cleaned_data["effective_from"],
            agreed=agreed,
        )
    except DomainError as refusal:
        form.add_error(None, refusal.sentences)
        return False
    messages.success(request, f"Version {version.version} is agreed with {agreed.organization.name}.")
    return True


urlpatterns = [
    path("prices/agreements/", agreements, name="agreements"),
    path("prices/agreements/<int:version_id>/end/", end, name="agreement-end"),
]
