"""What every test shares. The servers come from `-p portal.sandbox.pytest_servers` in pyproject's addopts."""

from datetime import UTC, datetime

import pytest


@pytest.fixture
def now() -> datetime:
    """A fixed moment, aware and in UTC, for services that take `now`."""
    return datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
