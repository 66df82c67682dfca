"""Whether, when and with which card credit is bought automatically: chosen by the organization itself."""

from dataclasses import asdict, dataclass
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts import locks as account_locks
from portal.accounts.models import Organization, User
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import AutoTopUp, CustomerCard
from portal.billing.rules import topups as topup_rules
from portal.billing.selectors import cards
from portal.billing.services import topup_guard
from portal.billing.services.topup_guard import written
from portal.core.errors import Conflict, InvalidValue

_MONTH_HOLDS = 100  # largest purchases


class CardRemoved(Conflict):
    """The card is not there to be charged any more."""

    code = "card_removed"


class TaxNeedsTheBuyer(Conflict):
    """Stripe computes tax on its page alone, so nothing may be charged without it."""

    code = "tax_needs_the_buyer"


@dataclass(frozen=True, slots=True)
class AutoTerms:
    """Below `threshold_minor` of free credit, buy `amount_minor` with this card, at most so much a calendar month."""

    threshold_minor: int
    amount_minor: int
    monthly_cap_minor: int
    card: str


def turn_on(*, organization: Organization, terms: AutoTerms, user: User, actor: Actor, now: datetime) -> AutoTopUp:
    """Let the pool charge the card whenever credit is low; earlier refusals are forgotten.

    Raises InvalidValue (naming the field), NotFound, CardRemoved, TaxNeedsTheBuyer, OrganizationSuspended.
    """
    if settings.STRIPE_AUTOMATIC_TAX:
        raise TaxNeedsTheBuyer("this pool has Stripe add tax on its page, which an automatic top-up does not pass")
    _require_sound(terms)
    with transaction.atomic():
        require_active(account_locks.organization(organization_id=organization.pk))
        found = cards.card_of(organization=organization, public_id=terms.card)
        plan = locks.auto_topup(organization.pk)
        card = locks.card(found.pk)
        if card.removed_at is not None:
            raise CardRemoved("this card was removed", param="card", fix="choose another card")
        plan = plan or AutoTopUp(organization=organization)
        _fill(plan, terms, card, user, now)
        plan.save()
        _record(organization, "auto_topup.on", asdict(terms), actor, now)
    return plan


def turn_off(*, organization: Organization, actor: Actor, now: datetime) -> None:
    """Charge the card no more; what is under way ends by itself."""
    with transaction.atomic():
        plan = locks.auto_topup(organization.pk)
        if plan is not None and plan.is_on:
            plan.is_on, plan.off_reason, plan.changed_at = False, "", now
            plan.save(update_fields=["is_on", "off_reason", "changed_at"])
            _record(organization, "auto_topup.off", {"reason": "turned off by a member"}, actor, now)


def _fill(plan: AutoTopUp, terms: AutoTerms, card: CustomerCard, user: User, now: datetime) -> None:
    plan.is_on, plan.card, plan.set_by, plan.changed_at = True, card, user, now
    plan.threshold_minor, plan.amount_minor = terms.threshold_minor, terms.amount_minor
    plan.monthly_cap_minor = terms.monthly_cap_minor
    plan.failures, plan.retry_at, plan.off_reason = 0, None, ""


def _require_sound(terms: AutoTerms) -> None:
    topup_guard.require_amount(terms.amount_minor)
    most = topup_rules.most_minor(settings.CURRENCY)
    if not 0 < terms.threshold_minor <= most:
        raise InvalidValue(f"A threshold is more than nothing and at most {written(most)}.", param="threshold")
    if not terms.amount_minor <= terms.monthly_cap_minor <= _MONTH_HOLDS * most:
        raise InvalidValue(
            f"A month's cap is at least one purchase and at most {written(_MONTH_HOLDS * most)}.", param="monthly_cap"
        )


def _record(organization: Organization, event: str, detail: dict[str, object], actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=organization.public_id,
        now=now,
        organization=organization.public_id,
        detail=detail,
    )
