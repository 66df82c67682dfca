"""Each row of docs/field-bugs.md names tests that exist."""

import re

import pytest

from tests.architecture.source import ROOT

_ROWS = [
    line
    for line in (ROOT / "docs" / "field-bugs.md").read_text().splitlines()
    if line.startswith("| ") and "::" in line
]
_NAMED = re.compile(r"`([\w/.]+)::(\w+)`")


def test_the_table_is_not_empty():
    assert len(_ROWS) >= 119


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row.split("|")[1].strip()[:40])
def test_a_row_names_tests_that_exist(row):
    named = _NAMED.findall(row)

    assert named
    for path, name in named:
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(), f"{path} has no {name}"
