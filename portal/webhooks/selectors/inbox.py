"""What lies in the inbox."""

from django.db.models import Count

from portal.webhooks.models import StripeEvent


def states_count() -> dict[str, int]:
    """Return how many events are in each state that any is in."""
    return dict(StripeEvent.objects.order_by("state").values_list("state").annotate(Count("id")))
