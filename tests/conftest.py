"""What every test shares. The servers come from `-p portal.sandbox.pytest_servers` in pyproject's addopts."""

from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import let_tests_truncate

# A busy machine is no counterexample. Hypothesis' own profile for CI says the same, and stays where it is in use.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if settings.get_current_profile_name() == "default":
    settings.load_profile("any machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that no process ends alone with it."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


@pytest.fixture
def now() -> datetime:
    """A fixed moment, aware and in UTC, for services that take `now`."""
    return datetime(2026, 11, 2, 12, 0, tzinfo=UTC)


@pytest.fixture
def world(db: None):
    """The people of the tests (tests/world.py): operator, provider, customer, both at once, stranger."""
    from tests.world import build_world

    return build_world()


@pytest.fixture
def shop():
    """A running stand-in, the pool pointed at it; webhooks wait until the test delivers them.

    The test fails where a request or an answer broke Stripe's rules.
    """
    from tests.factories.payouts import open_shop

    with open_shop() as opened:
        yield opened


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup, django_db_blocker) -> None:
    """The test database, made once; tests with real transactions empty it by TRUNCATE."""
    with django_db_blocker.unblock():
        let_tests_truncate()
