"""What some test cards do after they paid: their owner disputes, or their bank reports them as stolen."""

from portal.sandbox.stripe_double import disputes, warnings
from portal.sandbox.stripe_double.cards import Card
from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.store import Store


def follow(store: Store, charge: Body, card: Card) -> None:
    """Do what this card does after a charge."""
    if card.is_stolen:
        warnings.warn(store, charge, kind="made_with_stolen_card")
    if card.dispute:
        disputes.open_dispute(store, charge, reason=card.dispute)
