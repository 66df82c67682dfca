"""An organization's settings of automatic purchases and alerts, as its page shows them."""

from datetime import datetime

from portal.accounts.models import Organization
from portal.billing.models.alerts import CreditAlert
from portal.billing.models.auto_topups import AutoTopUp
from portal.billing.rules import auto_topups as rules
from portal.billing.selectors import topups


def plan_of(*, organization: Organization) -> AutoTopUp | None:
    """Return when which card is charged for how much, None where nobody ever said."""
    return AutoTopUp.objects.select_related("card").filter(organization=organization).first()


def alert_of(*, organization: Organization) -> CreditAlert | None:
    """Return below which credit the owners are told, None where nobody ever said."""
    return CreditAlert.objects.filter(organization=organization).first()


def spent_this_month(*, organization_id: int, now: datetime) -> int:
    """Return the minor units that automatic purchases of this calendar month (UTC) charged or may yet charge."""
    return topups.auto_since(organization_id=organization_id, since=rules.month_start(now))
