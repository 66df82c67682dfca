"""The life of a catalogue model: one transition table."""

from collections.abc import Mapping

from portal.core.errors import Conflict

MODEL_MOVES: Mapping[str, frozenset[str]] = {
    "draft": frozenset({"active", "retired"}),
    "active": frozenset({"deprecated", "retired"}),
    "deprecated": frozenset({"active", "retired"}),
    "retired": frozenset(),
}


class ModelMoveRefused(Conflict):
    """The model's state does not allow this move."""

    code = "model_move_refused"


def require_move(*, before: str, after: str) -> None:
    """Raise ModelMoveRefused unless the table allows the move."""
    if after not in MODEL_MOVES[before]:
        raise ModelMoveRefused(f"a {before} model cannot become {after}")
