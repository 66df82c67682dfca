"""Stripe's error answers, in its own shape."""

from dataclasses import dataclass, field

Body = dict[str, object]


@dataclass
class Refusal(Exception):
    """An error answer.

    `is_stored` says whether the idempotency layer keeps it: it does once execution began. `is_kept` says that what was
    done on the way stays done: a declined charge leaves its payment behind.
    """

    status: int
    code: str
    message: str
    type: str = "invalid_request_error"
    param: str = ""
    is_stored: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    is_kept: bool = False
    more: Body = field(default_factory=dict)

    def body(self) -> Body:
        """Return the answer's JSON."""
        error: Body = {"type": self.type, "message": self.message}
        if self.code:
            error["code"] = self.code
        if self.param:
            error["param"] = self.param
        return {"error": error | self.more}


def missing(kind: str, name: str, param: str = "id") -> Refusal:
    """Return Stripe's 404 for an object that this account does not have."""
    return Refusal(404, "resource_missing", f"No such {kind}: '{name}'", param=param)


def invalid(message: str, *, param: str = "", code: str = "") -> Refusal:
    """Return a 400."""
    return Refusal(400, code, message, param=param)
