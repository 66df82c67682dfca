"""Which entries by hand need a second person."""


def people_needed(*, amount_minor: int, approvers: int, second_from_minor: int) -> int:
    """Return how many operators must stand for a booking: two where the pool asks for two, or from an amount on."""
    return 2 if approvers > 1 or amount_minor >= second_from_minor else 1
