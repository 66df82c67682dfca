"""What a role includes and who may give it."""

_RANK = {"read_only": 0, "member": 1, "admin": 2, "owner": 3}


def includes(held: str, needed: str) -> bool:
    """Tell whether `held` is at least `needed`."""
    return _RANK[held] >= _RANK[needed]


def may_manage(*, manager: str, current: str, wanted: str) -> bool:
    """Tell whether a manager may move a member from one role to another: admins below owner, owners all."""
    return includes(manager, "admin") and includes(manager, current) and includes(manager, wanted)


def higher(first: str, second: str) -> str:
    """Return the role that includes the other."""
    return first if includes(first, second) else second
