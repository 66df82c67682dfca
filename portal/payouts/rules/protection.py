"""How a change of where the money goes is protected: a fresh second factor, and a pause in which it can be undone."""

from datetime import datetime, timedelta

from portal.payouts.errors import SecondFactorNeeded

RECENT = timedelta(minutes=10)
HOLD = timedelta(hours=72)


def require_recent(confirmed_at: datetime | None, *, now: datetime) -> None:
    """Raise SecondFactorNeeded unless the person used a second factor within RECENT; a key never has one."""
    if confirmed_at is None or not now - RECENT <= confirmed_at <= now:
        raise SecondFactorNeeded(
            "this changes where the money goes: confirm it with your second factor",
            fix="sign in on the web page and confirm with your authenticator or passkey",
        )
