"""What a node was seen doing that no honest node does, and what that takes from its standing.

Everything is recorded; only the rules of HOSTILE weigh, since a customer's odd request can make an honest engine slow,
silent or empty. They weigh by hours, not by incidents: a node that misbehaves a thousand times in a minute counts once,
one that does it in three different hours of a day, or in three different ways, gets less work for a day. Whether a node
is suspended is for people to decide.
"""

from datetime import datetime, timedelta

HOSTILE = frozenset(
    {
        "answer_too_large",
        "stream_too_long",
        "stream_after_end",
        "frames_out_of_order",
        "frames_too_small",
        "content_type_wrong",
        "usage_invalid",
        "usage_above_bound",
        "tunnel_protocol",
        "tunnel_window",
        "tunnel_flood",
        "tunnel_message_too_large",
    }
)
DISTRUSTED_AT = 3
WEIGHS_FOR = timedelta(hours=24)
KEPT_FOR = timedelta(days=30)
MAX_DETAIL = 200
MAX_SAMPLE_BYTES = 512


def hour_of(at: datetime) -> datetime:
    """Return the start of the hour: evidence of one rule is one row an hour."""
    return at.replace(minute=0, second=0, microsecond=0)


def is_distrusted(*, hostile_hours: int) -> bool:
    """Tell whether so many hours of hostile rules within WEIGHS_FOR lower a node's weight."""
    return hostile_hours >= DISTRUSTED_AT


def sample_text(sample: bytes) -> str:
    """Return a sample as it may be stored and shown: printable ASCII of bounded length."""
    text = sample[:MAX_SAMPLE_BYTES].decode("ascii", "replace")
    return "".join(character if character.isascii() and character.isprintable() else "?" for character in text)
