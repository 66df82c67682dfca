"""Row locks of this room."""

from collections.abc import Iterable

from portal.trust.models import TokenBias


def token_biases(ids: Iterable[int]) -> list[TokenBias]:
    """Lock bias rows in the order of their ids."""
    rows = TokenBias.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=set(ids)).order_by("pk")
    return list(rows)
