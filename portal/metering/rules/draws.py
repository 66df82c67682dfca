"""What a request's hold has of each lease, and how its charge is taken from them."""

from collections.abc import Sequence

from portal.core.records import record

Parts = Sequence[tuple[int, int]]


@record(frozen=True, slots=True)
class Draws:
    """Parts as (lease id, nano) in the order they are spent: of credit leases, and of each budget's leases."""

    credit: Parts
    budgets: Sequence[Parts] = ()

    @property
    def nano(self) -> int:
        """All that is held; each budget's parts add up to the same."""
        return sum(nano for _, nano in self.credit)


def spread(charge: int, sizes: Sequence[int]) -> list[int]:
    """Return the charge as the parts pay it: the first ones wholly. Raises ValueError for more than they have."""
    if len(sizes) == 1 and charge <= sizes[0]:
        return [charge]
    paid: list[int] = []
    for size in sizes:
        taken = min(size, charge)
        charge -= taken
        paid.append(taken)
    if charge:
        raise ValueError(f"a charge is {charge} beyond its hold of {sum(sizes)}")
    return paid


def columns(*, charge_nano: int, draws: Draws) -> dict[str, object]:
    """Return the columns of the usage record that say what was held and which leases pay."""
    budgets = [part for parts in draws.budgets for part in parts]
    shares = [share for parts in draws.budgets for share in spread(charge_nano, [nano for _, nano in parts])]
    return {
        "hold_nano": draws.nano,
        "lease_ids": [lease_id for lease_id, _ in draws.credit],
        "lease_charges": spread(charge_nano, [nano for _, nano in draws.credit]),
        "budget_lease_ids": [lease_id for lease_id, _ in budgets],
        "budget_charges": shares,
    }
