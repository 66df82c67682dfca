"""Tell the people who answer for an organization."""

import hashlib
from collections.abc import Iterable
from datetime import datetime

from portal.accounts.models import Organization
from portal.accounts.selectors.members import owner_addresses
from portal.notifications import services as notifications

_DIGEST = 16


def tell_owners(
    *,
    organization: Organization,
    key: str,
    template: str,
    context: dict[str, object],
    now: datetime,
    also: Iterable[str] = (),
) -> int:
    """Write to each owner and to `also`, each address once for `key`; return how many messages that makes."""
    addresses = sorted({*owner_addresses(organization=organization), *(one.lower() for one in also if one)})
    for address in addresses:
        notifications.send(
            key=f"{key}:{hashlib.sha256(address.encode()).hexdigest()[:_DIGEST]}",
            to=address,
            template=template,
            context={"organization": organization.name, **context},
            now=now,
        )
    return len(addresses)
