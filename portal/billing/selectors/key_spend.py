"""What each key of an organization has spent."""

from datetime import date

from django.db.models import Sum

from portal.billing.models import SpendDay


def spent_by_key(*, organization_id: int, since: date, until: date) -> dict[int, int]:
    """Return nano units by key id for the days from `since` to `until`, both included."""
    rows = SpendDay.objects.filter(organization_id=organization_id, day__range=(since, until))
    return dict(rows.values_list("api_key_id").annotate(total=Sum("charge_nano")).order_by("api_key_id"))
