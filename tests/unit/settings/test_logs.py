"""A log line is an event with fields, and never a secret."""

import json
import logging

import pytest

from portal.settings import logs


def record(message: str, **fields: object) -> logging.LogRecord:
    return logging.makeLogRecord({"name": "portal.nodes", "levelno": 20, "levelname": "INFO", "msg": message, **fields})


def test_json_holds_the_event_and_its_fields() -> None:
    line = json.loads(logs.JsonLines().format(record("node.enrolled", node="node_1")))

    assert (line["event"], line["node"], line["level"]) == ("node.enrolled", "node_1", "info")


@pytest.mark.parametrize(
    ("secret", "left"),
    [
        ("sk-pool-abcdef123456-topsecretpart-0a1b", "sk-pool-abcdef…"),
        ("ph-session-abcdefghijkl", "ph-session-abcdef…"),
        ("sk_live_abcdefgh", "sk_live_…"),
        ("whsec_abcdefgh", "whsec_…"),
        ("postgresql://pool:hunter2@db/pool", "postgresql://pool:…@db/pool"),
    ],
)
def test_secrets_are_cut(secret: str, left: str) -> None:
    for formatter in (logs.JsonLines(), logs.ReadableLines()):
        line = formatter.format(record("key.used", value=secret))

        assert secret not in line
        assert left in line


def test_a_traceback_is_kept_and_masked() -> None:
    with pytest.raises(ValueError, match="sk_test") as caught:
        int("sk_test_verysecret")

    line = logs.ReadableLines().format(record("task.failed", exc_info=caught._excinfo))

    assert "ValueError" in line
    assert "verysecret" not in line
