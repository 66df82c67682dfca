"""Money that goes back: refunds within limits, disputes that take it, warnings of networks."""

import pytest

from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_types import DisputeEvidence, RefundOrder

EVIDENCE = DisputeEvidence(
    customer_name="Acme",
    customer_email="buyer@example.com",
    product_description="Prepaid credit for model inference",
    service_date="2026-11-02",
    access_log="2026-11-02T12:00:00Z 120 requests",
    text="winning_evidence",
)


def refunding(place, charge: str, amount: int) -> RefundOrder:
    """Return the order to give part of a charge back."""
    return RefundOrder(place.name("refund"), place.name("org"), charge, amount, "usd")


def test_a_part_is_given_back_and_listed(place):
    since, paid = place.just_before(), place.charge(amount=2500)
    order = refunding(place, paid.charge, 900)

    made = place.door.create_refund(key=f"refund:{order.refund}", order=order)

    assert (made.status, made.amount_minor, made.currency) == ("succeeded", 900, "usd")
    assert (made.charge, made.reference) == (paid.charge, order.refund)
    assert place.door.refund(refund=made.id) == made
    assert [one.id for one in place.door.refunds_of(charge=paid.charge)] == [made.id]
    assert made.id in {one.id for one in place.door.refunds_since(since=since)}


def test_more_than_is_left_is_refused(place):
    paid = place.charge(amount=2500)
    order = refunding(place, paid.charge, 2000)
    place.door.create_refund(key=f"refund:{order.refund}", order=order)

    too_much = refunding(place, paid.charge, 501)
    with pytest.raises(PaymentRejected):
        place.door.create_refund(key=f"refund:{too_much.refund}", order=too_much)

    assert sum(one.amount_minor for one in place.door.refunds_of(charge=paid.charge)) == 2000


def test_what_was_given_back_in_full_is_over(place):
    paid = place.charge()
    for expected in ("", "charge_already_refunded"):
        order = refunding(place, paid.charge, 2500)
        try:
            place.door.create_refund(key=f"refund:{order.refund}", order=order)
            code = ""
        except PaymentRejected as error:
            code = error.stripe_code
        assert code == expected


def test_a_refund_may_take_its_time(place):
    paid = place.charge("pm_card_pendingRefund")
    order = refunding(place, paid.charge, 2500)

    made = place.door.create_refund(key=f"refund:{order.refund}", order=order)

    assert made.status == "pending"


def test_a_refund_may_fail_after_it_succeeded(place):
    paid = place.charge("pm_card_refundFail")
    order = refunding(place, paid.charge, 2500)
    made = place.door.create_refund(key=f"refund:{order.refund}", order=order)
    if place.double is not None:
        place.double.control("clock/advance", seconds=3601)

    failed = place.eventually(lambda: [one for one in [place.door.refund(refund=made.id)] if one.status == "failed"])

    assert failed[0].failure == "expired_or_canceled_card"


def test_a_dispute_takes_the_money_and_a_fee(place):
    since, paid = place.just_before(), place.charge("pm_card_createDispute")

    def mine():
        return [one for one in place.door.disputes_since(since=since) if one.charge == paid.charge]

    (dispute,) = place.eventually(mine)

    assert (dispute.status, dispute.reason, dispute.amount_minor) == ("needs_response", "fraudulent", 2500)
    assert (dispute.payment, dispute.currency, dispute.is_live) == (paid.id, "usd", False)
    (taken,) = dispute.movements
    assert (taken.amount_minor, taken.net_minor) == (-2500, -2500 - taken.fee_minor)
    assert dispute.evidence_due_at > since


def test_a_disputed_charge_cannot_be_given_back(place):
    since, paid = place.just_before(), place.charge("pm_card_createDispute")
    place.eventually(lambda: [one for one in place.door.disputes_since(since=since) if one.charge == paid.charge])
    order = refunding(place, paid.charge, 100)

    with pytest.raises(PaymentRejected) as refused:
        place.door.create_refund(key=f"refund:{order.refund}", order=order)

    assert refused.value.stripe_code == "charge_disputed"


def test_good_evidence_wins_the_money_back(place):
    since, paid = place.just_before(), place.charge("pm_card_createDisputeProductNotReceived")
    (dispute,) = place.eventually(
        lambda: [one for one in place.door.disputes_since(since=since) if one.charge == paid.charge]
    )

    place.door.submit_evidence(key=f"evidence:{dispute.id}", dispute=dispute.id, evidence=EVIDENCE)

    won = place.eventually(
        lambda: [one for one in [place.door.dispute(dispute=dispute.id)] if one.status == "won" and one.movements[1:]]
    )[0]
    assert sum(one.amount_minor for one in won.movements) == 0


def test_a_network_warns_of_a_stolen_card(place):
    paid = place.charge("pm_card_createIssuerFraudRecord")

    (listed,) = place.eventually(lambda: place.sdk.v1.radar.early_fraud_warnings.list({"charge": paid.charge}).data)
    warning = place.door.fraud_warning(warning=listed.id)

    assert (warning.charge, warning.payment, warning.is_actionable) == (paid.charge, paid.id, True)
