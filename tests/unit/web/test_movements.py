"""Ledger transactions are named in words on every page that lists them."""

from portal.web import movements


def test_known_kinds_have_words_of_their_own_and_others_are_spelled_out() -> None:
    assert movements.named("topup") == "Credit bought"
    assert movements.named("payout_sent") == "Paid out"
    assert movements.named("stripe_fee") == "Stripe fee"
