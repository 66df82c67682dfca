"""The pool of the gateway's tests: real processes, committed rows."""

from tests.integration.gateway.conftest import _django_db_helper, pool

__all__ = ["_django_db_helper", "pool"]
