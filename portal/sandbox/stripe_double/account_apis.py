"""Which of the two account APIs the platform is kept from, as Stripe keeps new and old platforms from one of them."""

from portal.sandbox.stripe_double.api import Call
from portal.sandbox.stripe_double.faults import Refusal, invalid

_V1_BLOCKED = "You cannot create v1 accounts. Use Accounts v2 (POST /v2/core/accounts) instead."
_V2_BLOCKED = "Accounts v2 is not enabled for your platform."


def require(call: Call, version: str) -> None:
    """Refuse the API that this platform is kept from. Raises Refusal."""
    if call.store.meta("accounts_blocked") != version:
        return
    if version == "v2":
        raise Refusal(400, "accounts_v2_access_blocked", _V2_BLOCKED)
    raise invalid(_V1_BLOCKED)
