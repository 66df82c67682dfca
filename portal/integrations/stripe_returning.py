"""What the door does about money that goes back to buyers: refunds, disputes, early fraud warnings."""

from collections.abc import Iterator
from datetime import datetime

from stripe.params import DisputeUpdateParamsEvidence

from portal.integrations import stripe_payment_reading as reading
from portal.integrations.stripe_outcome import StripeCalls, outcome
from portal.integrations.stripe_payment_types import Dispute, DisputeEvidence, FraudWarning, Refund, RefundOrder

_PAGE = 100


class ReturningCalls(StripeCalls):
    """The part of `Payments` that sees money leave again."""

    def create_refund(self, *, key: str, order: RefundOrder) -> Refund:
        """Give part of a charge back; Stripe takes the currency from the charge."""
        with outcome():
            made = self._v1.refunds.create(
                {
                    "charge": order.charge,
                    "amount": order.amount_minor,
                    "reason": "requested_by_customer",
                    "metadata": {"refund": order.refund, "organization": order.organization},
                },
                {"idempotency_key": key},
            )
        return reading.refund(made.to_dict())

    def refund(self, *, refund: str) -> Refund:
        """Return the refund."""
        with outcome():
            return reading.refund(self._v1.refunds.retrieve(refund).to_dict())

    def refunds_of(self, *, charge: str) -> list[Refund]:
        """Return every refund of a charge, those made at Stripe included."""
        with outcome():
            found = self._v1.refunds.list({"charge": charge, "limit": _PAGE})
            return [reading.refund(one.to_dict()) for one in found.auto_paging_iter()]

    def refunds_since(self, *, since: datetime) -> Iterator[Refund]:
        """Return every refund since then, newest first."""
        with outcome():
            found = self._v1.refunds.list({"created": {"gte": int(since.timestamp())}, "limit": _PAGE})
            for one in found.auto_paging_iter():
                yield reading.refund(one.to_dict())

    def dispute(self, *, dispute: str) -> Dispute:
        """Return the dispute with the money it moved."""
        with outcome():
            return reading.dispute(self._v1.disputes.retrieve(dispute).to_dict())

    def disputes_since(self, *, since: datetime) -> Iterator[Dispute]:
        """Return every dispute since then, newest first."""
        with outcome():
            found = self._v1.disputes.list({"created": {"gte": int(since.timestamp())}, "limit": _PAGE})
            for one in found.auto_paging_iter():
                yield reading.dispute(one.to_dict())

    def submit_evidence(self, *, key: str, dispute: str, evidence: DisputeEvidence) -> Dispute:
        """Answer a dispute; Stripe takes one answer only."""
        with outcome():
            answered = self._v1.disputes.update(
                dispute, {"evidence": _evidence(evidence), "submit": True}, {"idempotency_key": key}
            )
        return reading.dispute(answered.to_dict())

    def fraud_warning(self, *, warning: str) -> FraudWarning:
        """Return the early fraud warning."""
        with outcome():
            return reading.fraud_warning(self._v1.radar.early_fraud_warnings.retrieve(warning).to_dict())


def _evidence(evidence: DisputeEvidence) -> DisputeUpdateParamsEvidence:
    params: DisputeUpdateParamsEvidence = {
        "customer_name": evidence.customer_name,
        "customer_email_address": evidence.customer_email,
        "product_description": evidence.product_description,
        "service_date": evidence.service_date,
        "access_activity_log": evidence.access_log,
    }
    if evidence.customer_ip:
        params["customer_purchase_ip"] = evidence.customer_ip
    if evidence.refund_policy:
        params["refund_policy_disclosure"] = evidence.refund_policy
    if evidence.text:
        params["uncategorized_text"] = evidence.text
    return params
