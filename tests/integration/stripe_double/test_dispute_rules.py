"""Disputes: the money and a fee leave at once; a won one gives back the money, never the fee."""

import pytest

from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_types import DisputeEvidence
from portal.sandbox.stripe_double.faults import Refusal

FEE = 1500
CAME_IN = 2500 - 102
DAY_S = 86_400


def disputed(till, **more: object):
    """Let a buyer pay and dispute; return the dispute."""
    paid = till.pay()
    made = till.double.control("dispute", charge=paid.charge, **more)
    return till.door.dispute(dispute=str(made["id"]))


def evidence(text: str = "", access_log: str = "12:00 one request") -> DisputeEvidence:
    """Return an answer."""
    return DisputeEvidence("Acme", "a@example.com", "Credit", "2026-11-02", access_log, text=text)


def test_the_money_leaves_with_a_fee(till):
    dispute = disputed(till)

    assert (dispute.status, dispute.movements[0].net_minor) == ("needs_response", -2500 - FEE)
    assert till.balance() == CAME_IN - 2500 - FEE
    assert till.told()[-2:] == ["charge.dispute.created", "charge.dispute.funds_withdrawn"]


@pytest.mark.parametrize(("is_won", "back"), [(True, 2500), (False, 0)])
def test_a_verdict_decides_about_the_money(till, is_won, back):
    dispute = disputed(till)
    till.told()

    till.double.control("dispute/end", dispute=dispute.id, is_won=is_won)

    ended = till.door.dispute(dispute=dispute.id)
    assert (ended.status, till.balance()) == ("won" if is_won else "lost", CAME_IN - 2500 - FEE + back)
    expected = ["charge.dispute.closed"] + ["charge.dispute.funds_reinstated"] * is_won
    assert till.told() == expected


def test_a_dispute_may_take_the_money_later(till):
    dispute = disputed(till, is_withdrawn=False)
    assert (dispute.movements, till.balance()) == ((), CAME_IN)

    till.double.control("dispute/withdraw", dispute=dispute.id)

    assert till.balance() == CAME_IN - 2500 - FEE
    with pytest.raises(Refusal):
        till.double.control("dispute/withdraw", dispute=dispute.id)


def test_an_inquiry_takes_nothing_until_it_is_a_dispute(till):
    dispute = disputed(till, reason="inquiry")
    assert (dispute.status, dispute.movements, till.balance()) == ("warning_needs_response", (), CAME_IN)

    till.double.control("dispute/withdraw", dispute=dispute.id)

    assert till.door.dispute(dispute=dispute.id).status == "needs_response"
    assert till.balance() == CAME_IN - 2500 - FEE


def test_only_what_was_not_given_back_is_disputed(till):
    till.double.control("fund", amount=5000)
    paid = till.pay()
    till.double.control("refund", charge=paid.charge, amount=1000)

    made = till.double.control("dispute", charge=paid.charge)

    assert made["amount"] == 1500


def test_an_answer_is_taken_once(till):
    dispute = disputed(till)
    answered = till.door.submit_evidence(key=till.key(), dispute=dispute.id, evidence=evidence())
    assert answered.status == "under_review"

    with pytest.raises(PaymentRejected):
        till.door.submit_evidence(key=till.key(), dispute=dispute.id, evidence=evidence())


def test_an_answer_that_is_too_long_is_refused(till):
    dispute = disputed(till)

    with pytest.raises(PaymentRejected) as refused:
        till.door.submit_evidence(key=till.key(), dispute=dispute.id, evidence=evidence(access_log="x" * 20_001))

    assert refused.value.param == "evidence[access_activity_log]"
    assert till.door.dispute(dispute=dispute.id).status == "needs_response"


def test_bad_evidence_loses_at_once(till):
    dispute = disputed(till)

    answered = till.door.submit_evidence(key=till.key(), dispute=dispute.id, evidence=evidence("losing_evidence"))

    assert answered.status == "lost"


def test_a_dispute_that_nobody_answers_is_lost(till):
    dispute = disputed(till)

    till.double.control("clock/advance", seconds=9 * DAY_S + 1)

    assert till.door.dispute(dispute=dispute.id).status == "lost"


def test_a_warning_is_over_once_the_charge_is_disputed(till):
    paid = till.pay()
    warning = str(till.double.control("warning", charge=paid.charge)["id"])
    assert till.door.fraud_warning(warning=warning).is_actionable

    till.double.control("dispute", charge=paid.charge)

    assert till.door.fraud_warning(warning=warning).is_actionable is False


def test_the_stolen_card_pays_and_is_warned_about(till):
    paid = till.pay("4000000000005423")

    assert paid.payment_status == "paid"
    assert till.told()[-2:] == ["checkout.session.completed", "radar.early_fraud_warning.created"]
