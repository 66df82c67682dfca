"""Which ends of an attempt are charged and paid. Charge and pay never part."""

from typing import Final

COMPLETED: Final = "completed"
CUSTOMER_ABORT: Final = "customer_abort"
CREDIT_END: Final = "credit_end"
PLATFORM_CRASH: Final = "platform_crash"
EMPTY: Final = "empty"
NODE_FAULTS: Final = frozenset({"node_fault", "node_timeout"})

_DELIVERED_IS_CHARGED = frozenset({COMPLETED, CUSTOMER_ABORT, CREDIT_END, PLATFORM_CRASH})
_PROMPT_IS_CHARGED = frozenset({COMPLETED, CUSTOMER_ABORT, CREDIT_END})


def is_charged(*, outcome: str, has_delivered: bool) -> bool:
    """Tell whether the attempt is charged: after a crash of ours only where something had reached the customer."""
    return outcome in _PROMPT_IS_CHARGED or (outcome in _DELIVERED_IS_CHARGED and has_delivered)
