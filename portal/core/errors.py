"""Domain errors: each has a stable code, a message for people and, where known, the fix."""

from typing import ClassVar


class DomainError(Exception):
    """A refusal that its reader can act on; mapped to HTTP once per interface room."""

    code: ClassVar[str] = "domain_error"

    def __init__(self, message: str, *, param: str | None = None, fix: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.fix = fix

    @property
    def sentences(self) -> str:
        """The message and the fix as a person reads them, one after the other."""
        if not self.fix:
            return self.message
        return f"{self.message.rstrip('.')}. {self.fix[0].upper()}{self.fix[1:].rstrip('.')}."


class NotFound(DomainError):
    """The thing does not exist for this caller; a stranger's thing reads the same."""

    code = "not_found"


class Forbidden(DomainError):
    """The caller is known but may not do this."""

    code = "forbidden"


class Conflict(DomainError):
    """The state of the thing does not allow this move."""

    code = "conflict"


class InvalidValue(DomainError):
    """An argument cannot be used as given; `param` names it."""

    code = "invalid_value"
