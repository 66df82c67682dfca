"""Used and held never exceed what was granted, whatever happens in whatever order."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, precondition, rule

from portal.gateway.lease_pool import Fetched, LeasePool, Part, join, settle
from portal.metering.rules.draws import spread

NOW = 1_000_000.0
TERM = 900.0


def _pool(*sizes: int) -> LeasePool:
    pool = LeasePool()
    pool.absorb([Fetched(number, size, NOW + TERM) for number, size in enumerate(sizes, start=1)])
    return pool


def _named(parts: list[Part]) -> list[tuple[int, int]]:
    return [(part.lease.id, part.nano) for part in parts]


def test_a_hold_takes_from_the_first_lease_first_and_from_as_many_as_it_needs():
    pool = _pool(5, 100)

    assert _named(pool.take(10, NOW)) == [(1, 5), (2, 5)]
    assert _named(pool.take(5, NOW)) == [(2, 5)]
    assert pool.take(91, NOW) is None
    assert pool.held == 15


def test_a_request_that_costs_nothing_still_names_a_lease():
    assert _named(_pool(0).take(0, NOW)) == [(1, 0)]
    assert _pool().take(0, NOW) is None


def test_a_charge_is_taken_from_the_first_parts_wholly():
    pool = _pool(60, 50)
    parts = pool.take(100, NOW)

    settle(parts, used=75, seq=7)

    assert [(lease.used, lease.held, lease.last_seq) for lease in pool] == [(60, 0, 7), (15, 0, 7)]
    assert pool.idle == 35


def test_a_lease_is_not_spent_from_in_its_last_minute():
    pool = _pool(100)

    assert pool.take(1, NOW + TERM - 61) is not None
    assert pool.take(1, NOW + TERM - 60) is None


def test_a_lease_that_the_database_no_longer_names_is_only_wound_up():
    pool = _pool(100)
    parts = pool.take(10, NOW)
    lease = parts[0].lease
    pool.absorb([Fetched(2, 50, NOW + TERM)])

    assert _named(pool.take(10, NOW)) == [(2, 10)]
    assert lease.is_closing
    settle(parts, used=4, seq=7)
    assert (lease.used, lease.held, lease.last_seq) == (4, 0, 7)
    assert pool.idle_by_lease() == {2: 40}


def test_what_was_settled_is_spent_and_the_rest_is_idle_again():
    pool = _pool(100)
    parts = pool.take(60, NOW)

    settle(parts, used=25)

    assert (pool.idle, pool.held, parts[0].lease.used) == (75, 0, 25)


class LeaseMachine(RuleBasedStateMachine):
    """One account, several processes: what they lend, hold, charge, return and what is posted."""

    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.balance = 1_000
        self.posted = 0
        self.unposted: list[tuple[int, int]] = []
        self.database: dict[int, list[int]] = {}
        self.pools = [LeasePool() for _ in range(3)]
        self.opened = 0

    @property
    def held(self) -> int:
        return sum(granted - used for granted, used in self.database.values())

    @rule(process=st.integers(0, 2), wanted=st.integers(1, 300))
    def grant(self, process: int, wanted: int) -> None:
        pool = self.pools[process]
        extra = min(wanted, self.balance - self.held)
        if extra <= 0:
            return
        lease_id = next((lease.id for lease in pool), None)
        if lease_id is None:
            self.opened += 1
            lease_id = self.opened * 10 + process
            self.database[lease_id] = [0, 0]
        self.database[lease_id][0] += extra
        pool.absorb([Fetched(lease_id, self.database[lease_id][0], NOW + TERM)])

    @rule(target=holds, process=st.integers(0, 2), nano=st.integers(1, 100))
    def place(self, process: int, nano: int) -> list[Part]:
        return self.pools[process].take(nano, NOW) or []

    @rule(target=holds, hold=consumes(holds), process=st.integers(0, 2), nano=st.integers(1, 100))
    def grow(self, hold: list[Part], process: int, nano: int) -> list[Part]:
        """Hold more for the same request; a hold of another process is left as it is."""
        pool = self.pools[process]
        if not hold or all(lease is not hold[0].lease for lease in pool):
            return hold
        join(hold, pool.take(nano, NOW) or [])
        assert len({part.lease.id for part in hold}) == len(hold)
        return hold

    @rule(hold=consumes(holds), share=st.floats(0, 1))
    def settle(self, hold: list[Part], share: float) -> None:
        sizes = [part.nano for part in hold]
        used = int(sum(sizes) * share)
        settle(hold, used=used)
        self.unposted += zip([part.lease.id for part in hold], spread(used, sizes), strict=True)

    @rule(process=st.integers(0, 2))
    def return_idle(self, process: int) -> None:
        for lease in self.pools[process]:
            lease.granted = lease.used + lease.held
            self.database[lease.id][0] = max(lease.granted, self.database[lease.id][1])

    @precondition(lambda self: self.unposted)
    @rule()
    def post(self) -> None:
        lease_id, used = self.unposted.pop(0)
        self.database[lease_id][1] += used
        self.balance -= used
        self.posted += used

    @invariant()
    def holds_fit_into_what_was_granted(self) -> None:
        for pool in self.pools:
            for lease in pool:
                assert 0 <= lease.used + lease.held <= lease.granted == self.database[lease.id][0]

    @invariant()
    def charges_fit_into_what_is_held_and_that_into_the_balance(self) -> None:
        assert sum(used for _, used in self.unposted) <= self.held <= self.balance
        assert all(used <= granted for granted, used in self.database.values())
        assert self.balance + self.posted == 1_000


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=100, stateful_step_count=60, deadline=None)
