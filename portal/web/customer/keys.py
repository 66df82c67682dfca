"""API keys: list, create (the text is shown once, in the answer to the POST alone), revoke. Route `customer:keys`."""

from datetime import UTC, datetime, time

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import ApiKey, Role
from portal.accounts.rules import key_terms
from portal.accounts.rules.terms import Budget
from portal.accounts.selectors import keys as key_selectors
from portal.accounts.services import keys as key_services
from portal.billing.selectors.key_spend import spent_by_key
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.money import decimal_text, nano_from_text
from portal.web.access import OrganizationRequest, page
from portal.web.customer.snippets import curl_example

CLASS_MEANING = {
    "house": "House: machines the operator owns or rents",
    "contracted": "Contracted: identified owners who signed terms with the operator",
    "community": "Community: identified owners without a contract; an owner could read prompts and answers",
    "unidentified": "Unidentified: owners nobody has checked; only for text that may become public",
}


class KeyForm(forms.Form):
    """The terms of a new key."""

    name = forms.CharField(max_length=80, help_text="Where it will be used, for example “staging backend”.")
    node_classes = forms.MultipleChoiceField(
        label="Which nodes may serve it",
        choices=[(name, CLASS_MEANING[name]) for name in key_terms.NODE_CLASSES],
        initial=list(key_terms.DEFAULT_NODE_CLASSES),
        widget=forms.CheckboxSelectMultiple,
        help_text="Every answer says which class served it.",
    )
    tools_on_any_class = forms.BooleanField(
        label="Allow tool calls on every class chosen above",
        required=False,
        help_text="A node can forge a tool call; without this, tools go to house and contracted nodes only.",
    )
    monthly_cap = forms.CharField(
        label="Monthly cap",
        required=False,
        initial=decimal_text(key_terms.DEFAULT_BUDGET.cap_nano or 0),
        help_text="Starts again on the first of each month, 00:00 UTC. Empty: no cap beside the credit.",
    )
    expires_on = forms.DateField(
        label="Expires on",
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}),
        help_text="Refused from this day, 00:00 UTC.",
    )

    def clean_monthly_cap(self) -> int | None:
        """Read the amount as nano units."""
        text = self.cleaned_data["monthly_cap"].strip().replace(",", ".")
        if not text:
            return None
        try:
            return nano_from_text(text)
        except ValueError as error:
            raise forms.ValidationError("Write an amount such as 25 or 12.50.") from error

    def clean_expires_on(self) -> datetime | None:
        """Read the day as its first moment in UTC."""
        day = self.cleaned_data["expires_on"]
        return datetime.combine(day, time(), tzinfo=UTC) if day else None


@page(side="customer")
def keys(request: OrganizationRequest) -> HttpResponse:
    """List the organization's keys with what each has spent this month."""
    now = clock.now()
    rows = list(key_selectors.list_keys(organization=request.organization))
    spent = spent_by_key(organization_id=request.organization.pk, since=_month_start(now).date(), until=now.date())
    shown = [_row(key, spent.get(key.pk, 0), now) for key in rows]
    return render(request, "customer/keys.html", {"rows": shown, "resets_at": _next_month(now)})


@page(side="customer", role=Role.MEMBER)
def create(request: OrganizationRequest) -> HttpResponse:
    """Ask for the terms; the answer to the POST shows the key's text once."""
    form = KeyForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = _create(request, form)
        except DomainError as error:
            form.add_error(_field_of(error, form), error.message)
        else:
            context = {"key": made.key, "text": made.text, "example": curl_example(made.text)}
            return render(request, "customer/key_created.html", context)
    return render(request, "customer/key_new.html", {"form": form, "currency": settings.CURRENCY.upper()})


@page(side="customer", role=Role.MEMBER)
def revoke(request: OrganizationRequest, key: str) -> HttpResponse:
    """Ask, then revoke."""
    found = key_selectors.get_key(organization=request.organization, public_id=key)
    if request.method == "POST":
        key_services.revoke_key(organization=request.organization, public_id=key, actor=request.actor, now=clock.now())
        messages.success(request, f"{found.name} is revoked; every gateway refuses it within a second.")
        return redirect("customer:keys")
    return render(request, "customer/key_revoke.html", {"key": found})


def _create(request: OrganizationRequest, form: KeyForm) -> key_services.CreatedKey:
    wanted = form.cleaned_data
    return key_services.create_key(
        organization=request.organization,
        terms=key_terms.KeyTerms(
            name=wanted["name"],
            node_classes=tuple(wanted["node_classes"]),
            budget=Budget(cap_nano=wanted["monthly_cap"]),
            expires_at=wanted["expires_on"],
            tools_on_any_class=wanted["tools_on_any_class"],
        ),
        created_by=request.user,
        actor=request.actor,
        now=clock.now(),
    )


def _field_of(error: DomainError, form: KeyForm) -> str | None:
    name = {"expires_at": "expires_on", "budget_cap": "monthly_cap"}.get(error.param or "", error.param)
    return name if name in form.fields else None


def _row(key: ApiKey, spent_nano: int, now: datetime) -> dict[str, object]:
    return {
        "key": key,
        "state": state_of(key, now),
        "spent_nano": spent_nano,
        "share": _share(spent_nano, key.budget_cap_nano),
        "is_live": state_of(key, now) == "active",
    }


def state_of(key: ApiKey, now: datetime) -> str:
    """Return active, expired or revoked."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"


def _share(spent_nano: int, cap_nano: int | None) -> str:
    """Return how much of the cap is spent, as a width for the meter."""
    return f"{min(100, 100 * spent_nano // cap_nano)}%" if cap_nano else ""


def _month_start(now: datetime) -> datetime:
    return now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _next_month(now: datetime) -> datetime:
    start = _month_start(now)
    return start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)


urlpatterns = [
    path("keys/", keys, name="keys"),
    path("keys/new/", create, name="key-new"),
    path("keys/<str:key>/revoke/", revoke, name="key-revoke"),
]
