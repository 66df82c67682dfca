"""The fixtures of the agent's tests."""

from tests.agent.conftest import pool, serving, state

__all__ = ["pool", "serving", "state"]
