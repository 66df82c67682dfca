"""Every failure has a code, a source, a cause and a fix."""

import re

import pytest
from poolhouse_common import failures
from poolhouse_common.failure import SOURCES

ENTRIES = sorted(failures.FAILURES.values(), key=lambda entry: entry.code)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_an_entry_is_complete(entry):
    assert re.fullmatch(r"[a-z][a-z0-9_]{2,47}", entry.code)
    assert entry.source in SOURCES
    assert entry.title
    assert not entry.title.endswith(".")
    assert entry.cause.endswith((".", ":"))
    assert entry.fix.endswith(".")


def test_an_unknown_code_is_still_explained():
    found = failures.explain("flux_capacitor_empty")

    assert (found.title, found.source) == ("Flux capacitor empty", "node")
    assert found.cause
    assert found.fix
    assert failures.find("flux_capacitor_empty") is None
