"""The life of a provider: one transition table."""

from collections.abc import Mapping

from portal.core.errors import Conflict

PROVIDER_MOVES: Mapping[str, frozenset[str]] = {
    "draft": frozenset({"submitted", "approved"}),
    "submitted": frozenset({"approved", "rejected", "draft"}),
    "approved": frozenset({"suspended"}),
    "rejected": frozenset({"submitted", "approved"}),
    "suspended": frozenset({"approved"}),
}


class ProviderMoveRefused(Conflict):
    """The provider's state does not allow this move."""

    code = "provider_move_refused"


def require_move(*, before: str, after: str) -> None:
    """Raise ProviderMoveRefused unless the table allows the move."""
    if after not in PROVIDER_MOVES[before]:
        raise ProviderMoveRefused(f"a provider that is {before} cannot become {after}")


def may_use_external_engine(*, kind: str, has_right: bool) -> bool:
    """Tell whether servers that the agent did not start may serve for this provider."""
    return kind == "house" or has_right
