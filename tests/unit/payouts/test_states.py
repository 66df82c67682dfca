"""The life of a payout: the one table, complete and without a way back from the end."""

import pytest

from portal.payouts.errors import PayoutMoveRefused
from portal.payouts.models import OPEN_STATES, AccountState, PayoutState
from portal.payouts.rules import accounts, approval, states

ENDS = {"rejected", "canceled", "reversed"}


def test_the_table_knows_every_state():
    known = set(PayoutState.values)

    assert set(states.PAYOUT_MOVES) == known == set(states.MEANINGS)
    assert set.union(*(set(after) for after in states.PAYOUT_MOVES.values())) <= known
    assert set(AccountState.values) == set(accounts.FIXES)


def test_nothing_leaves_an_end():
    assert {state for state, after in states.PAYOUT_MOVES.items() if not after} == ENDS


def test_open_is_what_may_still_be_paid():
    assert set(OPEN_STATES) == set(PayoutState.values) - ENDS - {"transferred"}


def test_nothing_unknown_is_given_up_without_a_person():
    assert states.PAYOUT_MOVES["unknown"] & {"rejected", "canceled"} == set()


def test_a_move_outside_the_table_is_refused():
    states.require_move(before="approved", after="sending")
    with pytest.raises(PayoutMoveRefused):
        states.require_move(before="transferred", after="approved")


def test_any_change_makes_another_approval():
    base = {"payout": "payout_1", "amount_minor": 100, "currency": "usd", "destination": "acct_1"}
    changes = [{"amount_minor": 101}, {"currency": "eur"}, {"destination": "acct_2"}, {"payout": "payout_2"}]

    hashes = {approval.approval_hash(**(base | change)) for change in [{}, *changes]}

    assert len(hashes) == 5
    assert approval.approval_hash(**base) in hashes
