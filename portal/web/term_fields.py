"""Form fields that keys, projects and organizations share: a budget, limits, and how a refusal finds its field."""

from typing import Any

from django import forms

from portal.accounts.models import BudgetPeriod
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.core.errors import DomainError
from portal.core.money import decimal_text, nano_from_text

LIMIT_NAMES = ("requests_per_minute", "tokens_per_minute", "parallel_requests")


class BudgetFields(forms.Form):
    """How much may be spent in which period."""

    budget_cap = forms.CharField(
        label="Budget",
        required=False,
        help_text="Requests that could go beyond it are refused. Empty: no budget beside the credit.",
    )
    budget_period = forms.ChoiceField(
        label="The budget starts again",
        choices=[
            (BudgetPeriod.DAY, "each day at midnight"),
            (BudgetPeriod.WEEK, "each Monday at midnight"),
            (BudgetPeriod.MONTH, "on the first of each month"),
            (BudgetPeriod.LIFETIME, "never"),
        ],
        initial=BudgetPeriod.MONTH,
        help_text="Midnight in your organization's time zone.",
    )

    def clean_budget_cap(self) -> int | None:
        """Read the amount as nano units."""
        text = self.cleaned_data["budget_cap"].strip().replace(",", ".")
        if not text:
            return None
        try:
            return nano_from_text(text)
        except ValueError as error:
            raise forms.ValidationError("Write an amount such as 25 or 12.50.") from error

    def budget(self) -> Budget:
        """Return the budget that was asked for."""
        return Budget(cap_nano=self.cleaned_data["budget_cap"], period=self.cleaned_data["budget_period"])


class LimitFields(forms.Form):
    """How much a minute and at once."""

    requests_per_minute = forms.IntegerField(
        required=False, min_value=1, help_text="Empty: the pool's own limit. So with the next two."
    )
    tokens_per_minute = forms.IntegerField(
        required=False, min_value=1, help_text="Prompt and answer together; an answer counts as what it may be at most."
    )
    parallel_requests = forms.IntegerField(label="Requests at once", required=False, min_value=1)

    def limits(self) -> LimitTerms:
        """Return the limits that were asked for."""
        return LimitTerms(*(self.cleaned_data[name] for name in LIMIT_NAMES))


def budget_initial(budget: Budget) -> dict[str, Any]:
    """Return a budget as the form shows it."""
    cap = "" if budget.cap_nano is None else decimal_text(budget.cap_nano)
    return {"budget_cap": cap, "budget_period": budget.period}


def limits_initial(limits: LimitTerms) -> dict[str, Any]:
    """Return limits as the form shows them."""
    return {name: getattr(limits, name) for name in LIMIT_NAMES}


def refuse(form: forms.Form, error: DomainError) -> None:
    """Show a refusal at the field that it names, else above the form."""
    name = {"expires_at": "expires_on", "grace": "grace_hours"}.get(error.param or "", error.param)
    form.add_error(name if name in form.fields else None, error.sentences)
