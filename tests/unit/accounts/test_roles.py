"""What a role includes and who may give it."""

import pytest

from portal.accounts.models import Role
from portal.accounts.rules import roles

ORDER = ["read_only", "member", "admin", "owner"]


def test_the_ranks_are_the_roles():
    assert sorted(ORDER) == sorted(Role.values)


@pytest.mark.parametrize("held", ORDER)
@pytest.mark.parametrize("needed", ORDER)
def test_each_role_includes_those_below(held: str, needed: str):
    assert roles.includes(held, needed) is (ORDER.index(held) >= ORDER.index(needed))
    assert roles.higher(held, needed) == max(held, needed, key=ORDER.index)


@pytest.mark.parametrize(
    ("manager", "current", "wanted", "may"),
    [
        ("owner", "owner", "read_only", True),
        ("owner", "member", "owner", True),
        ("admin", "member", "admin", True),
        ("admin", "admin", "member", True),
        ("admin", "member", "owner", False),
        ("admin", "owner", "member", False),
        ("member", "read_only", "read_only", False),
        ("read_only", "read_only", "read_only", False),
    ],
)
def test_who_may_manage_whom(manager: str, current: str, wanted: str, *, may: bool):
    assert roles.may_manage(manager=manager, current=current, wanted=wanted) is may
