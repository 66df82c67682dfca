"""Rate, tokens and concurrency of keys, projects and organizations, held by all processes together."""

from portal.gateway.limits.answers import LimitReached, duration
from portal.gateway.limits.limiter import Limiter, Slot
from portal.gateway.limits.link import TOPIC, ValkeyLink

__all__ = ["TOPIC", "LimitReached", "Limiter", "Slot", "ValkeyLink", "duration"]
