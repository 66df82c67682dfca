"""A customer whose card may be charged."""

import pytest

from tests.integration.credit import saving


@pytest.fixture
def low(shop, now):
    """A customer whose credit of 10 is down to 4, with automatic purchases of 20 below 5."""
    organization = saving.customer(shop, now=now)
    saving.turn_on(organization, now=now)
    saving.spend(organization, minor=600, now=now, key="1")
    return organization
