"""What the agent refuses or fails at: a stable code, what happened, and the catalogue's cause and fix."""

from poolhouse_common import failures


class AgentError(Exception):
    """A failure with a code of the shared catalogue; `detail` says what happened here."""

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.code = code
        self.detail = detail

    @property
    def cause(self) -> str:
        """Why this happens, in the catalogue's words."""
        return cause_of(self.code)

    @property
    def fix(self) -> str:
        """What to do about it, in the catalogue's words."""
        return fix_of(self.code)


class ConfigError(AgentError):
    """The agent's own configuration or state cannot be used."""


class PortalError(AgentError):
    """The portal refused, could not be reached, or answered something that is not the protocol."""

    def __init__(self, code: str, detail: str = "", *, status: int = 0, fix: str = "") -> None:
        super().__init__(code, detail)
        self.status = status
        self._fix = fix

    @property
    def fix(self) -> str:
        """The portal's own words where it gave some, else the catalogue's."""
        return self._fix or super().fix


class ProtocolError(AgentError):
    """The other side of the tunnel broke the protocol."""

    def __init__(self, detail: str) -> None:
        super().__init__("protocol_error", detail)


class RequestRefused(AgentError):
    """The front lets this request not through; the code travels in a FAIL frame."""


class UpdateError(AgentError):
    """A release cannot be taken, or did not stay."""


class EngineError(AgentError):
    """An engine cannot be started, died, or does not answer as it should."""


def cause_of(code: str) -> str:
    """The catalogue's cause for `code`, or an empty text."""
    found = failures.find(code)
    return found.cause if found else ""


def fix_of(code: str) -> str:
    """The catalogue's fix for `code`, or an empty text."""
    found = failures.find(code)
    return found.fix if found else ""
