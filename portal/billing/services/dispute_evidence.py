"""Evidence in a dispute, made of our own records alone: shown first, frozen when it is sent, sent once."""

from dataclasses import asdict
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import Dispute
from portal.billing.rules import amounts
from portal.billing.rules import disputes as rules
from portal.billing.selectors import dispute_facts as facts
from portal.billing.selectors import disputes as selectors
from portal.billing.services import disputes
from portal.core.errors import Conflict
from portal.integrations import stripe
from portal.integrations.stripe_types import DisputeEvidence

LONGEST = 20_000
_LOOKS_BACK = timedelta(days=1)


class NotAnswerable(Conflict):
    """The bank takes no evidence any more, or has got ours."""

    code = "dispute_not_answerable"


def preview(*, stripe_dispute: str, note: str = "") -> DisputeEvidence:
    """Return what would be sent now; what was sent stays as it was. Raises NotFound."""
    row = selectors.dispute(stripe_dispute=stripe_dispute)
    return DisputeEvidence(**row.evidence) if row.evidence else _assembled(row, note)


def submit(*, stripe_dispute: str, note: str, actor: Actor, now: datetime) -> Dispute:
    """Send the evidence to the bank; after an answer that nobody has, the same is sent again.

    Raises NotFound, NotAnswerable, PaymentRejected, PaymentOutcomeUnknown.
    """
    with transaction.atomic():
        row = locks.dispute(selectors.dispute(stripe_dispute=stripe_dispute).pk)
        if row.evidence_sent_at is not None or row.status not in rules.ANSWERABLE:
            raise NotAnswerable(f"the dispute is {row.status.replace('_', ' ')}: no evidence can be sent")
        if row.evidence is None:
            row.evidence = asdict(_assembled(row, note))
            row.save(update_fields=["evidence"])
    seen = stripe.payments().submit_evidence(
        key=f"evidence:{stripe_dispute}", dispute=stripe_dispute, evidence=DisputeEvidence(**row.evidence)
    )
    with transaction.atomic():
        row = locks.dispute(row.pk)
        if row.evidence_sent_at is None:
            row.evidence_sent_at = now
            row.save(update_fields=["evidence_sent_at"])
            audit.record(
                actor=actor,
                event="dispute.evidence_sent",
                subject=stripe_dispute,
                organization=row.organization.public_id,
                detail={"note": note},
                now=now,
            )
    return disputes.take(topup=row.topup, seen=seen, now=now)


def _assembled(row: Dispute, note: str) -> DisputeEvidence:
    topup, organization = row.topup, row.organization
    people = facts.members(organization=organization)
    email = topup.created_by.email if topup.created_by else (people[0].user.email if people else "")
    days = facts.used_days(organization=organization, since=(topup.paid_at or topup.created_at) - _LOOKS_BACK)
    return DisputeEvidence(
        customer_name=organization.name,
        customer_email=email,
        product_description=_product(),
        service_date=f"{topup.paid_at or topup.created_at:%Y-%m-%d}",
        access_log=_cut(_access(row)),
        customer_ip=facts.purchase_address(topup=topup),
        refund_policy=_policy(),
        text=_cut("\n\n".join(part for part in (note.strip(), _payment(row), _usage(days)) if part)),
    )


def _product() -> str:
    return (
        f"Prepaid credit of {settings.POOL_NAME}, an online service that runs language models. Credit is delivered "
        "electronically at once and is used request by request through the customer's own API keys."
    )


def _policy() -> str:
    return (
        "Unused credit that was bought can be refunded to the card that paid, on request in the customer's account. "
        "Used credit is not refunded: the service was delivered at the moment of each request."
    )


def _access(row: Dispute) -> str:
    organization = row.organization
    lines = [f"{_at(organization.created_at)} account {organization.public_id} opened"]
    lines += [
        f"{_at(one.created_at)} {one.user.email} joined as {one.role}; signed up {_at(one.user.created_at)}"
        for one in facts.members(organization=organization)
    ]
    lines += [f"{_at(one.at)} {one.event} from {one.address}" for one in facts.visits(organization=organization)]
    lines += [
        f"{_at(one.first_seen_at)} to {_at(one.last_seen_at)} key {one.key.public_id} used from {one.network}"
        for one in facts.key_places(organization=organization)
    ]
    return "\n".join(lines)


def _payment(row: Dispute) -> str:
    lines = [f"Disputed payment: {row.topup.payment_intent} of {amounts.written_minor(row.amount_minor, row.currency)}"]
    for topup, charge in facts.purchases(organization=row.organization):
        shown = f"{_at(topup.paid_at)} {amounts.written_minor(topup.amount_minor + topup.tax_minor, topup.currency)}"
        card = f" card {charge.card_brand} …{charge.card_last4} {charge.card_country}" if charge else ""
        secure = " authenticated by 3-D Secure" if charge and charge.is_three_d_secure else ""
        receipt = f" receipt {topup.receipt_url or topup.invoice_url}" if topup.receipt_url or topup.invoice_url else ""
        lines.append(f"{shown} {topup.payment_intent}{card}{secure}{receipt}")
    lines += [
        f"{_at(one.created_at)} refunded {amounts.written_minor(one.amount_minor, one.currency)} ({one.state})"
        for one in facts.refunds(topup=row.topup)
    ]
    terms = facts.accepted_terms(topup=row.topup)
    if terms:
        lines.append(f"Terms accepted with the purchase: {terms}")
    return "\n".join(lines)


def _usage(days: list[facts.UsedDay]) -> str:
    if not days:
        return "None of the credit was used after the payment."
    lines = ["Use of the service after the payment, by day (UTC), with some of the request ids:"]
    lines += [
        f"{one.day} {one.requests} requests, {one.tokens} tokens, "
        f"{amounts.written(one.charge_nano, settings.CURRENCY)}: {', '.join(one.ids)}"
        for one in days
    ]
    return "\n".join(lines)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _at(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC" if moment else "-"
