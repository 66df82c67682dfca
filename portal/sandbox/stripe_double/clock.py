"""What happens by itself when the stand-in's time moves on."""

from portal.sandbox.stripe_double import accounts, buying, disputes, refunds
from portal.sandbox.stripe_double.store import Store


def tick(store: Store) -> None:
    """Expire sessions, end refunds, lose disputes that nobody answered, stop accounts whose deadline is over."""
    buying.tick(store)
    refunds.tick(store)
    disputes.tick(store)
    accounts.tick(store)
