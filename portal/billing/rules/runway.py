"""How long credit lasts, and when its being low is worth an e-mail."""

from datetime import timedelta

DAYS = 7
_LONGEST = timedelta(days=3650)
_RISE_PART = 10
_FIRST_PART = 5


def runway(*, balance_nano: int, spent_nano: int) -> timedelta | None:
    """Return how long the balance lasts at the average of the last seven days; None where nothing was spent."""
    if spent_nano <= 0:
        return None
    seconds = max(0, balance_nano) * DAYS * 86_400 // spent_nano
    return min(timedelta(seconds=min(seconds, int(_LONGEST.total_seconds()))), _LONGEST)


def in_words(lasts: timedelta | None) -> str:
    """Return the runway as a person says it."""
    if lasts is None:
        return "no spend in the last 7 days"
    if lasts >= _LONGEST:
        return "years"
    if lasts >= timedelta(days=2):
        return f"{lasts.days} days"
    hours = int(lasts.total_seconds()) // 3600
    return "less than an hour" if hours < 1 else f"{hours} hour{'s' if hours > 1 else ''}"


def first_threshold(paid_minor: int) -> int:
    """Return below how many minor units credit counts as low where nobody has said: a fifth of the first payment."""
    return max(1, paid_minor // _FIRST_PART)


def is_low(*, balance_nano: int, threshold_nano: int, was_low: bool) -> bool:
    """Tell whether credit counts as low: below the threshold, and then until it is a tenth above it again."""
    if was_low:
        return balance_nano < threshold_nano + threshold_nano // _RISE_PART
    return balance_nano < threshold_nano
