"""A charge that several leases pay is split without losing or making a nano."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.metering.rules import draws
from portal.metering.rules.draws import Draws

sizes = st.lists(st.integers(0, 10**12), min_size=1, max_size=6)


@given(sizes=sizes, share=st.fractions(0, 1))
def test_the_split_of_a_charge_conserves_it_and_the_first_parts_pay_wholly(sizes, share):
    charge = int(sum(sizes) * share)

    paid = draws.spread(charge, sizes)

    assert sum(paid) == charge
    assert all(0 <= part <= size for part, size in zip(paid, sizes, strict=True))
    started = [position for position, part in enumerate(paid) if part]
    assert all(paid[position] == sizes[position] for position in range(max(started, default=0)))


@given(sizes=sizes)
def test_a_charge_beyond_the_hold_is_said_not_hidden(sizes):
    with pytest.raises(ValueError, match="beyond its hold"):
        draws.spread(sum(sizes) + 1, sizes)


@given(credit=sizes, cuts=st.lists(st.fractions(0, 1), max_size=3), share=st.fractions(0, 1))
def test_every_budget_counts_the_whole_charge(credit, cuts, share):
    total = sum(credit)
    charge = int(total * share)
    budgets = [[(9, int(total * cut)), (8, total - int(total * cut))] for cut in cuts]

    columns = draws.columns(charge_nano=charge, draws=Draws(list(enumerate(credit)), budgets))

    assert columns["hold_nano"] == total
    assert sum(columns["lease_charges"]) == charge
    assert sum(columns["budget_charges"]) == charge * len(budgets)
    assert len(columns["lease_ids"]) == len(columns["lease_charges"])
    assert len(columns["budget_lease_ids"]) == len(columns["budget_charges"]) == 2 * len(budgets)
