"""A price version by its id, as usage rows name it."""

from portal.billing.models import PriceVersion


def price_version(*, price_version_id: int) -> PriceVersion | None:
    """Return the version, or None where the id names none."""
    return PriceVersion.objects.filter(pk=price_version_id).first()
