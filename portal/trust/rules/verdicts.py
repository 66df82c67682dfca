"""What each audit of a node came to, in words for whoever runs the node and for whoever runs the pool."""

from enum import StrEnum


class Audit(StrEnum):
    """What the node's figures are held against."""

    COUNT = "count"
    ENGINE = "engine"
    CACHE = "cache"

    @property
    def against(self) -> str:
        """Say it in words."""
        return _AGAINST[self]


class Verdict(StrEnum):
    """What came of it. UNMEASURED is no fault: too little was seen to say anything."""

    IN_ORDER = "in_order"
    TOO_MANY = "too_many"
    TOO_FEW = "too_few"
    UNMEASURED = "unmeasured"


_AGAINST = {
    Audit.COUNT: "Pool's own count",
    Audit.ENGINE: "Engine's counters",
    Audit.CACHE: "Earlier prompts",
}
_CAUGHT = "Until they match again, the pool's own count is the most that is billed, and the node is sent half the work."
_MEANINGS = {
    (Audit.COUNT, Verdict.IN_ORDER): "The node's figures are billed, up to 1 % above the pool's own count.",
    (Audit.COUNT, Verdict.TOO_MANY): f"Its figures run ahead of the pool's count. {_CAUGHT}",
    (Audit.COUNT, Verdict.UNMEASURED): "Below 1,000 counted tokens nothing is judged, and a little less work is sent.",
    (Audit.ENGINE, Verdict.IN_ORDER): "The engine has counted what the node said.",
    (Audit.ENGINE, Verdict.TOO_MANY): f"Its figures run ahead of its engine's. {_CAUGHT}",
    (Audit.ENGINE, Verdict.UNMEASURED): "The engine has shown no two readings to compare; some engines show none.",
    (
        Audit.CACHE,
        Verdict.IN_ORDER,
    ): "It reuses as much of earlier prompts as is usual; that is billed at the cached price.",
    (Audit.CACHE, Verdict.TOO_FEW): "Of what it was sent before and must still have had, it says it reused far less "
    "than is usual. Until that ends, all of it is billed at the cached price.",
    (Audit.CACHE, Verdict.UNMEASURED): "Below 20,000 tokens that it was sent before nothing is judged.",
}


def meaning(audit: Audit, verdict: Verdict) -> str:
    """Say what follows from a verdict."""
    return _MEANINGS[audit, verdict]
