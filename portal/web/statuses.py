"""How each state is shown: a word, an icon and a tone, never colour alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Status:
    """`tone` is ok, warn, crit, info or neutral; `icon` is a lucide name."""

    word: str
    icon: str
    tone: str


_OK, _WARN, _CRIT, _INFO, _NEUTRAL = "ok", "warn", "crit", "info", "neutral"

_STATUSES = {
    "accepted": Status("Accepted", "check", _OK),
    "action_required": Status("Action required", "triangle-alert", _WARN),
    "active": Status("Active", "check", _OK),
    "approved": Status("Approved", "check", _OK),
    "asked": Status("Asked", "clock", _INFO),
    "available": Status("Available", "check", _OK),
    "booked": Status("Booked", "check", _OK),
    "canceled": Status("Canceled", "x", _NEUTRAL),
    "checking": Status("Checking", "gauge", _INFO),
    "closed": Status("Closed", "x", _NEUTRAL),
    "completed": Status("Completed", "check", _OK),
    "created": Status("Created", "clock", _NEUTRAL),
    "credit_end": Status("Credit ended", "wallet", _WARN),
    "customer_abort": Status("Aborted by caller", "square", _NEUTRAL),
    "customer_error": Status("Caller's error", "triangle-alert", _WARN),
    "degraded": Status("Degraded", "triangle-alert", _WARN),
    "deprecated": Status("Deprecated", "clock", _WARN),
    "done": Status("Done", "check", _OK),
    "draft": Status("Draft", "pencil", _NEUTRAL),
    "draining": Status("Draining", "wrench", _INFO),
    "empty": Status("Empty answer", "minus", _WARN),
    "ended": Status("Ended", "x", _NEUTRAL),
    "enforced": Status("Enforced", "shield-check", _INFO),
    "enrolled": Status("Pending", "clock", _NEUTRAL),
    "entered": Status("Entered", "clock", _INFO),
    "expired": Status("Expired", "clock", _NEUTRAL),
    "fail": Status("Failed", "x", _CRIT),
    "failed": Status("Failed", "x", _CRIT),
    "halted": Status("Halted", "pause", _WARN),
    "held": Status("Held", "pause", _WARN),
    "identified": Status("Identified", "check", _OK),
    "in_order": Status("In order", "check", _OK),
    "in_review": Status("In review", "clock", _INFO),
    "in_transit": Status("On its way", "clock", _INFO),
    "interrupted": Status("Interrupted", "pause", _WARN),
    "maintenance": Status("Maintenance", "wrench", _INFO),
    "needs_action": Status("Needs you", "triangle-alert", _WARN),
    "needs_review": Status("Needs review", "triangle-alert", _WARN),
    "node_busy": Status("Node busy", "minus", _WARN),
    "node_fault": Status("Node fault", "x", _CRIT),
    "node_timeout": Status("Node timed out", "clock", _CRIT),
    "not_started": Status("Not started", "minus", _NEUTRAL),
    "off": Status("Off", "minus", _NEUTRAL),
    "offered": Status("Offered", "check", _OK),
    "offline": Status("Offline", "x", _CRIT),
    "onboarding": Status("Onboarding", "clock", _INFO),
    "open": Status("Open", "clock", _INFO),
    "paid": Status("Paid", "check", _OK),
    "pass": Status("Passed", "check", _OK),
    "pending": Status("Pending", "clock", _NEUTRAL),
    "platform_crash": Status("Interrupted by the pool", "triangle-alert", _WARN),
    "processing": Status("Processing", "clock", _INFO),
    "proposed": Status("Proposed", "clock", _INFO),
    "ready": Status("Ready", "minus", _NEUTRAL),
    "refused": Status("Refused", "ban", _WARN),
    "rejected": Status("Rejected", "x", _CRIT),
    "requested": Status("Requested", "clock", _INFO),
    "reserved": Status("Scheduled", "clock", _INFO),
    "restricted": Status("Restricted", "ban", _CRIT),
    "retired": Status("Retired", "archive", _NEUTRAL),
    "reversed": Status("Reversed", "undo-2", _WARN),
    "review": Status("For review", "circle-question-mark", _INFO),
    "revoked": Status("Revoked", "ban", _NEUTRAL),
    "running": Status("Running", "check", _OK),
    "sending": Status("Sending", "clock", _INFO),
    "serving": Status("Serving", "check", _OK),
    "shadow": Status("Shadow", "eye", _NEUTRAL),
    "skip": Status("Not made", "minus", _NEUTRAL),
    "starting": Status("Starting", "clock", _INFO),
    "stopped": Status("Stopped", "minus", _NEUTRAL),
    "stuck": Status("Stuck", "triangle-alert", _CRIT),
    "submitted": Status("Submitted", "clock", _INFO),
    "suspended": Status("Suspended", "ban", _CRIT),
    "too_few": Status("Too few", "triangle-alert", _WARN),
    "too_many": Status("Too many", "triangle-alert", _WARN),
    "transferred": Status("Sent", "check", _OK),
    "unidentified": Status("Not identified", "circle-question-mark", _WARN),
    "unknown": Status("Unknown", "circle-question-mark", _WARN),
    "unmeasured": Status("Too little seen", "minus", _NEUTRAL),
    "unsupported": Status("Not supported", "ban", _CRIT),
    "used": Status("Used", "check", _NEUTRAL),
    "waiting_funds": Status("Waiting for funds", "clock", _WARN),
    "warn": Status("Warning", "triangle-alert", _WARN),
    "withdrawn": Status("Withdrawn", "archive", _NEUTRAL),
}


def status_of(state: str) -> Status:
    """Return how a state is shown; one without an entry is shown by its own name, without a colour."""
    return _STATUSES.get(state) or Status(state.replace("_", " ").capitalize(), "circle", _NEUTRAL)
