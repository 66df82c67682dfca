"""What the Credit page shows; each of its forms may be the one that was just sent."""

from datetime import datetime

from django import forms
from django.conf import settings

from portal.accounts.models import Role
from portal.accounts.rules import roles
from portal.billing.models import AutoTopUp
from portal.billing.rules import runway
from portal.billing.selectors import auto_topups, balances, cards, grants, postpaid, spend_pace, topups, transactions
from portal.billing.services import topup_guard
from portal.web import formats
from portal.web.access import OrganizationRequest
from portal.web.customer.credit_forms import AlertForm, AutoTopUpForm, TopUpForm, new_key


def context(request: OrganizationRequest, *, now: datetime, **sent: forms.Form) -> dict[str, object]:
    """Return the page's context; `sent` holds the form that was sent, by its name."""
    organization = request.organization
    balance = balances.customer_balance(organization=organization.public_id)
    spent = spend_pace.spent_lately(organization_id=organization.pk, now=now)
    lasts = runway.runway(balance_nano=balance.free_nano, spent_nano=spent)
    saved, plan = cards.cards_of(organization=organization), auto_topups.plan_of(organization=organization)
    alert = auto_topups.alert_of(organization=organization)
    return {
        "form": sent.get("form") or TopUpForm(initial={"client_key": new_key()}),
        "auto_form": sent.get("auto_form") or AutoTopUpForm(cards=saved, plan=plan),
        "alert_form": sent.get("alert_form") or AlertForm(alert=alert),
        "currency": settings.CURRENCY.upper(),
        "terms_url": settings.TERMS_URL,
        "balance": balance,
        "runway": runway.in_words(lasts) if lasts is not None else formats.UNKNOWN,
        "spent_lately": spent,
        "plan": plan,
        "refusal": _refusal(plan, now),
        "collects_tax": settings.STRIPE_AUTOMATIC_TAX,
        "auto_spent_minor": auto_topups.spent_this_month(organization_id=organization.pk, now=now) if plan else 0,
        "alert": alert,
        "cards": saved,
        "gifts": grants.standing(organization=organization, balance_nano=balance.promo_nano),
        "postpaid": postpaid.terms_of(organization=organization),
        "bills": postpaid.bills_of(organization=organization),
        "topups": topups.topups_of(organization=organization),
        "movements": transactions.customer_movements(organization=organization.public_id),
        "may_manage": roles.includes(request.membership.role, Role.ADMIN),
        "is_owner": roles.includes(request.membership.role, Role.OWNER),
    }


def _refusal(plan: AutoTopUp | None, now: datetime) -> topup_guard.PurchaseRefused | None:
    """Return why the pool's own guard lets no automatic purchase begin, where it rests without a bank's refusal."""
    if plan is None or not plan.is_on or plan.retry_at is None or plan.retry_at <= now or plan.failures:
        return None
    return topup_guard.refusal_of_automatic(organization=plan.organization, amount_minor=plan.amount_minor, now=now)
