"""The terms of a key."""

import pytest

from portal.accounts.rules import key_terms
from portal.nodes.models import NodeClass
from portal.web.customer.key_form import CLASS_MEANING


def test_the_classes_are_those_of_the_nodes_room():
    assert list(key_terms.NODE_CLASSES) == NodeClass.values
    assert set(CLASS_MEANING) == set(NodeClass.values)


def test_new_keys_reach_house_and_contracted_nodes_up_to_a_hundred():
    assert key_terms.DEFAULT_NODE_CLASSES == ("house", "contracted")
    assert key_terms.Budget(100_000_000_000, "month") == key_terms.DEFAULT_BUDGET


def test_classes_come_in_order_and_once():
    assert key_terms.in_order(["community", "house", "community"]) == ["house", "community"]


def test_an_unknown_class_is_named():
    with pytest.raises(ValueError, match="unknown node class: moon"):
        key_terms.in_order(["house", "moon"])
