"""Which class a node is of: it follows from who its provider is."""


def node_class(*, kind: str, is_identified: bool) -> str:
    """Return house, contracted, community or unidentified."""
    if kind == "house":
        return "house"
    if not is_identified:
        return "unidentified"
    return "contracted" if kind == "contracted" else "community"


def is_paid(*, kind: str) -> bool:
    """Tell whether nodes of such a provider earn; the operator's own do not."""
    return kind != "house"
