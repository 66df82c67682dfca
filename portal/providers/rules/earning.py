"""Whether customers' paid requests may reach a provider's nodes."""


def may_earn(*, is_house: bool, is_identified: bool, is_held_full: bool, earns_before_identity: bool) -> bool:
    """Tell whether a provider may be given paid work: identified, or trusted with a little before that.

    Whoever earns before being identified stops where the held balance has reached its cap.
    """
    if is_house or is_identified:
        return True
    return earns_before_identity and not is_held_full
