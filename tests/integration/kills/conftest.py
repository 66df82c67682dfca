"""The stand-in runs for each test, and the pool is pointed at it; webhooks wait until the test delivers them."""

from collections.abc import Iterator

import pytest

from portal.integrations import stripe
from portal.integrations.stripe_http import HttpxTransport
from tests.factories.payouts import Shop, open_shop


@pytest.fixture
def shop(monkeypatch) -> Iterator[Shop]:
    """A running stand-in; the test fails where a request or an answer broke Stripe's rules."""
    monkeypatch.setattr(HttpxTransport, "INITIAL_DELAY", 0.01)
    with open_shop() as opened:
        yield opened
    stripe.forget_connections()
