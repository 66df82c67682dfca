"""Provider pages: the tax profile and the credit notes. Main route `provider:tax`."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Role
from portal.core import clock
from portal.core.errors import DomainError
from portal.payouts.models import TaxProfile, TaxStatus
from portal.payouts.rules import credit_note_pdf
from portal.payouts.selectors import credit_notes as selectors
from portal.payouts.services import tax, tax_profiles
from portal.payouts.services.tax_profiles import Given
from portal.providers.models import Provider
from portal.web.access import ProviderRequest, provider_page
from portal.web.countries import COUNTRIES

_BPS_A_PERCENT = 100


class TaxForm(forms.Form):
    """Who the provider is to the tax office."""

    status = forms.ChoiceField(
        label="You supply as",
        choices=[(TaxStatus.PRIVATE.value, "a private person"), (TaxStatus.BUSINESS.value, "a business")],
        widget=forms.RadioSelect,
    )
    is_small_business = forms.BooleanField(label="The business is exempt from VAT as a small business", required=False)
    name = forms.CharField(max_length=160, help_text="As it has to stand on an invoice.")
    address = forms.CharField(max_length=400, widget=forms.Textarea(attrs={"rows": 3}))
    country = forms.ChoiceField(choices=[("", "Choose…"), *COUNTRIES], help_text="Where you pay tax.")
    tax_id = forms.CharField(
        label="VAT or tax number",
        max_length=40,
        required=False,
        help_text="Only of a business. Its format is checked here; whether it exists, the operator finds out.",
    )
    vat_rate = forms.DecimalField(
        label="VAT rate in per cent",
        min_value=0,
        max_value=30,
        decimal_places=2,
        initial=0,
        help_text="What comes on top of your earnings where you and the pool are in one country; else 0.",
    )
    does_consent = forms.BooleanField(
        label="The pool may write my invoices (self-billing)",
        required=False,
        help_text="For each payout you get a credit note with a number of the pool's; you write no invoice yourself."
        " Your consent is kept with the version of the agreement in force.",
    )


@provider_page(post_role=Role.ADMIN)
def tax_page(request: ProviderRequest) -> HttpResponse:
    """Show and change the tax profile, what it means for payouts, and every credit note so far."""
    profile = selectors.profile_of(provider=request.provider)
    form = TaxForm(request.POST or None, initial=_initial(request.provider, profile))
    if request.method == "POST" and form.is_valid():
        try:
            tax_profiles.save(
                provider_id=request.provider.public_id, given=_given(form), actor=request.actor, now=clock.now()
            )
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "The tax profile is saved.")
            return redirect("provider:tax")
    verdict = tax.verdict_of(profile)
    context = {
        "form": form,
        "profile": profile,
        "verdict": verdict,
        "missing": tax.WORDS.get(tax.missing_for(profile, verdict), ""),
        "notes": selectors.of_provider(provider=request.provider),
    }
    return render(request, "provider/tax.html", context)


@provider_page()
def credit_note(request: ProviderRequest, note: str) -> HttpResponse:
    """Answer one credit note as PDF."""
    found = selectors.note_of(provider=request.provider, public_id=note)
    headers = {"content-disposition": f'attachment; filename="{found.number}.pdf"'}
    body = credit_note_pdf.render(found.content, sha256=found.sha256)
    return HttpResponse(body, content_type="application/pdf", headers=headers)


def _initial(provider: Provider, profile: TaxProfile | None) -> dict[str, object]:
    if profile is None:
        return {"status": TaxStatus.PRIVATE.value, "name": provider.legal_name, "country": provider.country}
    return {
        "status": profile.status,
        "is_small_business": profile.is_small_business,
        "name": profile.name,
        "address": profile.address,
        "country": profile.country,
        "tax_id": profile.tax_id,
        "vat_rate": f"{profile.vat_rate_bps // _BPS_A_PERCENT}.{profile.vat_rate_bps % _BPS_A_PERCENT:02d}",
        "does_consent": profile.consented_at is not None,
    }


def _given(form: TaxForm) -> Given:
    data = form.cleaned_data
    return Given(
        status=data["status"],
        is_small_business=data["is_small_business"],
        name=data["name"],
        address=data["address"],
        country=data["country"],
        tax_id=data["tax_id"],
        vat_rate_bps=int(data["vat_rate"] * _BPS_A_PERCENT),
        does_consent=data["does_consent"],
    )


urlpatterns = [
    path("tax/", tax_page, name="tax"),
    path("tax/notes/<str:note>.pdf", credit_note, name="credit-note"),
]
