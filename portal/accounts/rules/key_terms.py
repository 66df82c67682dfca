"""What an API key may be limited to, and what it is limited to when nobody says otherwise.

The classes are those of the nodes room, which lies above; a test holds the two lists together.
"""

from portal.core.money import NANO_PER_UNIT

NODE_CLASSES = ("house", "contracted", "community", "unidentified")
DEFAULT_NODE_CLASSES = ("house", "contracted")
DEFAULT_MONTHLY_CAP_NANO = 100 * NANO_PER_UNIT


def in_order(node_classes: list[str]) -> list[str]:
    """Return the classes without doubles, best identified first. Raises ValueError for an unknown one."""
    unknown = sorted(set(node_classes) - set(NODE_CLASSES))
    if unknown:
        raise ValueError(f"unknown node class: {', '.join(unknown)}")
    return [name for name in NODE_CLASSES if name in node_classes]
