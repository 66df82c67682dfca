"""Tell owners when their account at Stripe needs them: once for each state, and again as its deadline comes near."""

from datetime import datetime

from portal.accounts.services.owners import tell_owners
from portal.payouts.models import AccountState, PayoutAccount
from portal.payouts.rules import accounts as rules
from portal.payouts.rules import requirements

_TOLD = frozenset(
    {AccountState.ACTION_REQUIRED, AccountState.RESTRICTED, AccountState.UNSUPPORTED, AccountState.CLOSED}
)


def tell(*, row: PayoutAccount, is_change: bool, now: datetime) -> int:
    """Write to the owners inside the caller's transaction where there is something new to say; return how many."""
    nearest = requirements.reminder(row.due_at, now=now)
    if row.state not in _TOLD or not (is_change or nearest is not None):
        return 0
    # A change of state is told once a day at most; each reminder of one deadline once.
    moment = f"{now:%Y%m%d}" if is_change else f"{row.due_at:%Y%m%d}-{nearest}"
    return tell_owners(
        organization=row.provider.organization,
        key=f"account:{row.provider.public_id}:{row.generation}:{row.state}:{moment}",
        template="payout_account",
        context={
            "state": row.get_state_display().lower(),
            "cause": rules.cause(row.state, row.state_code),
            "code": row.state_code,
            "fix": rules.fix(row.state, row.state_code),
            "asks": [ask.words for ask in requirements.asks(row.requirements)],
            "due": f"{row.due_at:%Y-%m-%d}" if row.due_at else "",
            "days": requirements.days_left(row.due_at, now=now),
        },
        now=now,
        also=[row.provider.contact_email],
    )
