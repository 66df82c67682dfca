"""A provider, a token and an agent that has joined."""

import pytest

from portal.audit.services import Actor
from portal.nodes.services import enrolment
from tests.factories.accounts import UserFactory
from tests.factories.nodes import AgentKey
from tests.factories.providers import ProviderFactory
from tests.integration.nodes.agent import Agent

ACTOR = Actor(public_id="user_test", address="203.0.113.5")


@pytest.fixture
def actor() -> Actor:
    return ACTOR


@pytest.fixture
def provider(db):
    return ProviderFactory()


@pytest.fixture
def token(provider, now) -> str:
    return enrolment.create_token(
        provider=provider, label="rack 4", created_by=UserFactory(), actor=ACTOR, now=now
    ).text


@pytest.fixture
def agent(token, now) -> Agent:
    joined = Agent(key=AgentKey.of(1))
    joined.enrol(token, now)
    return joined
