"""The class of a node follows from who its provider is."""

import pytest

from portal.nodes.models import NodeClass
from portal.nodes.rules.classes import is_paid, node_class


@pytest.mark.parametrize(
    ("kind", "is_identified", "expected"),
    [
        ("house", False, "house"),
        ("house", True, "house"),
        ("contracted", True, "contracted"),
        ("contracted", False, "unidentified"),
        ("independent", True, "community"),
        ("independent", False, "unidentified"),
    ],
)
def test_class(kind, is_identified, expected):
    assert node_class(kind=kind, is_identified=is_identified) == expected
    assert expected in NodeClass.values


def test_only_house_nodes_earn_nothing():
    assert [kind for kind in ("house", "contracted", "independent") if not is_paid(kind=kind)] == ["house"]
