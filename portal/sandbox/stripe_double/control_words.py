"""The words of the control API: which controls there are, which fields each takes, and how a body is read."""

from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.permissions import RESOURCES

PLATFORM_FIELDS = (
    "accounts_blocked",
    "charges_stopped",
    "checkout_card",
    "country",
    "dispute_fee",
    "fee_bps",
    "minimum_balance",
    "payout_interval",
    "payouts_stopped",
    "platform_unregistered",
    "refund_shortage",
    "settlement_s",
    "tax_bps",
)
PLATFORM_NUMBERS = frozenset({"dispute_fee", "fee_bps", "minimum_balance", "settlement_s", "tax_bps"})
FIELDS: dict[str, tuple[str, ...]] = {
    "account": ("account", "move", "bank", "due_in_s"),
    "account/bank": ("account", "bank", "currency"),
    "account/debt": ("account", "amount", "currency"),
    "bank/end": ("account", "payout", "is_good"),
    "bank/run": (),
    "card": ("behaves_like", "payment_method"),
    "clock/advance": ("seconds",),
    "dispute": ("charge", "reason", "is_withdrawn"),
    "dispute/end": ("dispute", "is_won"),
    "dispute/withdraw": ("dispute",),
    "drain": ("leave", "currency"),
    "endpoint": ("endpoint", "status", "events", "api_version"),
    "fail": ("kind", "when", "method", "path", "count"),
    "fund": ("amount", "currency"),
    "gate/held": ("timeout_s",),
    "gate/open": (),
    "key": ("key", *RESOURCES),
    "platform": PLATFORM_FIELDS,
    "refund": ("charge", "amount"),
    "refund/end": ("refund", "is_good"),
    "reset": (),
    "reverse": ("transfer", "amount"),
    "settle": ("session", "is_good"),
    "state": (),
    "warning": ("charge", "type"),
    "webhooks": ("kind", "count", "seconds"),
}


def require_known(name: str, body: Body) -> None:
    """Refuse a control that does not exist, and a field that it would ignore. Raises Refusal."""
    if name not in FIELDS:
        raise Refusal(404, "", f"No such control: {name}. Known: {', '.join(FIELDS)}")
    unknown = [field for field in body if field not in FIELDS[name]]
    if unknown:
        takes = ", ".join(FIELDS[name]) or "no fields"
        raise invalid(f"{name} has no field {unknown[0]}; it takes {takes}", param=unknown[0])


def number(body: Body, name: str, *, default: int | None = None) -> int:
    """Return a whole number. Raises Refusal."""
    value = body.get(name, default)
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{name} must be a whole number", param=name)
    return value


def word(body: Body, name: str, allowed: "set[str] | frozenset[str]", *, default: str = "") -> str:
    """Return one of the allowed words. Raises Refusal."""
    value = str(body.get(name, default))
    if value not in allowed:
        raise invalid(f"{name} must be one of {', '.join(sorted(allowed))}", param=name)
    return value


def text(body: Body, name: str) -> str:
    """Return a text, empty where it is missing."""
    return str(body.get(name) or "")


def flag(body: Body, name: str, *, default: bool) -> bool:
    """Return a yes or no: JSON's, or a form's word."""
    return str(body.get(name, default)).lower() in {"true", "1", "yes"}
