"""What expires first is spent first: the rests that are kept equal those of a ledger that knows each nano's grant."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules import grants
from portal.billing.rules.grants import Grant

NOW = datetime(2026, 11, 2, tzinfo=UTC)
ENDS = st.none() | st.integers(0, 6).map(lambda days: NOW + timedelta(days=days))
GIVEN = st.lists(st.tuples(st.integers(0, 50), ENDS), max_size=6).map(
    lambda rows: [Grant(number, rest, ends) for number, (rest, ends) in enumerate(rows)]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("give"), st.integers(1, 50), ENDS),
        st.tuples(st.just("spend"), st.integers(0, 60), st.none()),
        st.tuples(st.just("hold"), st.integers(0, 60), st.none()),
        st.tuples(st.just("expire"), st.integers(0, 6), st.none()),
    ),
    max_size=25,
)


@given(GIVEN, st.integers(0, 300))
def test_the_rests_add_up_to_the_balance_and_never_grow(rows, balance):
    before = {grant.number: grant.rest_nano for grant in rows}
    balance = min(balance, sum(before.values()))

    after = grants.spend(rows, balance_nano=balance)

    assert sum(grant.rest_nano for grant in after) == balance
    assert all(0 <= grant.rest_nano <= before[grant.number] for grant in after)


@given(GIVEN, st.integers(0, 300))
def test_nothing_is_spent_of_what_ends_later_while_something_that_ends_sooner_is_left(rows, balance):
    before = {grant.number: grant.rest_nano for grant in rows}
    after = grants.spend(rows, balance_nano=min(balance, sum(before.values())))

    for place, grant in enumerate(after):
        if grant.rest_nano:
            assert all(later.rest_nano == before[later.number] for later in after[place + 1 :])


@given(GIVEN, st.integers(0, 300), st.integers(0, 6))
def test_an_expiry_takes_no_more_than_the_rest_and_nothing_that_is_held(rows, free, day):
    taken = grants.expire(rows, free_nano=free, now=NOW + timedelta(days=day))

    assert sum(part for _, part in taken) <= free
    assert all(0 < part <= grant.rest_nano for grant, part in taken)
    assert all(grant.expires_at <= NOW + timedelta(days=day) for grant, _ in taken)


class Exact:
    """A model that spends nano by nano, so that each grant's rest is always known."""

    def __init__(self) -> None:
        self.rests: dict[int, int] = {}
        self.ends: dict[int, datetime | None] = {}

    def order(self) -> list[int]:
        never = datetime.max.replace(tzinfo=UTC)
        return sorted(self.rests, key=lambda number: (self.ends[number] or never, number))

    def spend(self, nano: int) -> None:
        for number in self.order():
            part = min(nano, self.rests[number])
            self.rests[number] -= part
            nano -= part


@given(STEPS)
def test_settling_only_when_grants_begin_or_end_is_exact(steps):
    exact, kept, balance, held, now = Exact(), {}, 0, 0, NOW
    for kind, number, ends in steps:
        if kind == "give":
            kept = settled(kept, balance)
            name = len(exact.rests)
            exact.rests[name], exact.ends[name] = number, ends
            kept[name] = Grant(name, number, ends)
            balance += number
        elif kind == "spend":
            part = min(number, balance)
            exact.spend(part)
            balance -= part
            held = min(held, balance)
        elif kind == "hold":
            held = min(number, balance)
        else:
            now = max(now, NOW + timedelta(days=number))
            kept = settled(kept, balance)
            for grant, part in grants.expire(list(kept.values()), free_nano=balance - held, now=now):
                kept[grant.number] = Grant(grant.number, grant.rest_nano - part, grant.expires_at)
                exact.rests[grant.number] -= part
                balance -= part
        assert {name: grant.rest_nano for name, grant in settled(kept, balance).items()} == exact.rests
        assert sum(exact.rests.values()) == balance >= held


def settled(kept: dict[int, Grant], balance: int) -> dict[int, Grant]:
    """Return the grants after taking off what was spent."""
    return {grant.number: grant for grant in grants.spend(list(kept.values()), balance_nano=balance)}
