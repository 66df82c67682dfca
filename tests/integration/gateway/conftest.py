"""One pool a module: the processes are real, so their rows are committed and stay until the module ends."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from tests.integration.gateway.pool import Pool


@pytest.fixture
def _django_db_helper(django_db_setup, django_db_blocker) -> Iterator[None]:
    """Replaces pytest-django's: tests see the committed rows, and nothing is rolled back or emptied after each."""
    with django_db_blocker.unblock():
        yield


@pytest.fixture(scope="module")
def pool(django_db_setup, django_db_blocker) -> Iterator[Pool]:
    """A pool without gateways or nodes; each module starts those it needs. The database is emptied at the end."""
    with django_db_blocker.unblock(), tempfile.TemporaryDirectory(prefix="pool-") as folder:
        call_command("flush", verbosity=0, interactive=False)
        made = Pool(Path(folder))
        try:
            yield made
        finally:
            made.stop()
            call_command("flush", verbosity=0, interactive=False)
