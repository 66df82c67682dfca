"""Logging: one line an event, with its fields; JSON in production, readable on a developer's machine."""

import json
import logging
import re
from datetime import UTC, datetime
from typing import Any

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message", "data"}
_SECRETS = re.compile(
    r"((?:sk-pool|mk-pool|ph-enrol|ph-session)-[0-9a-z]{0,6}|(?:sk|rk)_(?:live|test)_|whsec_)[\w-]+"
    r"|(://[^/:@\s]*:)[^@/\s]+(?=@)"
)


def mask(text: str) -> str:
    """Return the text with keys, tokens and passwords in URLs cut to their harmless beginning."""
    return _SECRETS.sub(lambda match: f"{match.group(1) or match.group(2)}…", text)


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD and not name.startswith("_")}


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: at, level, logger, event, then the fields given as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, masked."""
        line: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return mask(json.dumps(line, default=str, ensure_ascii=False))


class ReadableLines(logging.Formatter):
    """Formats a record as `time level event name=value …`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, masked; a traceback follows on lines of its own."""
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{at} {record.levelname.lower():7} {record.name}: {record.getMessage()}{fields}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return mask(line)


def settings(*, formatter: str, level: str) -> dict[str, Any]:
    """Return Django's LOGGING: everything to standard error through the formatter class of this module."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": f"{__name__}.{formatter}"}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {"handlers": [], "level": "INFO", "propagate": True},
            "django.server": {"handlers": [], "level": "INFO", "propagate": True},
            # A line for each periodic task each second says nothing; failures are errors and stay.
            "celery.app.trace": {"level": "WARNING"},
            "celery.beat": {"level": "WARNING"},
            "celery.worker.strategy": {"level": "WARNING"},
            "httpx": {"level": "WARNING"},
            "stripe": {"level": "WARNING"},
            "uvicorn.access": {"handlers": [], "level": "WARNING", "propagate": True},
        },
    }
