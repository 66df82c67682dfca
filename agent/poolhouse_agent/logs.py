"""Logs of the agent: one line an event, its fields after it. No keys, no tokens, no text of requests."""

import json
import logging
import re
import sys
from datetime import UTC, datetime

from poolhouse_agent.errors import fix_of

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_SECRET = re.compile(r"(ph-(?:enrol|session)-|sk-pool-|mk-pool-|Bearer )[A-Za-z0-9._~+/=-]+")


class LineFormatter(logging.Formatter):
    """`2026-01-31T12:00:00+00:00 WARNING engine.died code=engine_died fix="…"`, or the same as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD and value != ""}
        if "code" in fields and "fix" not in fields and (fix := fix_of(str(fields["code"]))):
            fields["fix"] = fix
        if self._as_json:
            line = json.dumps(
                {"at": at, "level": record.levelname, "event": record.getMessage(), **fields}, default=str
            )
        else:
            words = [
                at,
                record.levelname,
                record.getMessage(),
                *(f"{name}={_word(value)}" for name, value in fields.items()),
            ]
            line = " ".join(words)
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return masked(line)


def _word(value: object) -> str:
    text = str(value)
    return text if re.fullmatch(r"[\w.:/@+-]+", text) else json.dumps(text, ensure_ascii=False)


def masked(text: str) -> str:
    """The text with every secret of the pool replaced."""
    return _SECRET.sub(r"\1***", text)


def configure(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send all logs to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LineFormatter(as_json=as_json))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for noisy in ("httpx", "httpcore", "asyncio", "aiohttp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)


def keep_off_terminal() -> None:
    """Log nothing: a command that people read says itself what it found."""
    logging.getLogger("poolhouse_agent").addHandler(logging.NullHandler())
    logging.getLogger("poolhouse_agent").propagate = False
