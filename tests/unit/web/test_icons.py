"""Every icon that templates and states name is in the wheel."""

import re
from pathlib import Path

import lucide
import pytest

from portal.web import shell, statuses

ROOT = Path(__file__).parents[3]
IN_TEMPLATE = re.compile(r"{% icon \"([a-z0-9-]+)\"|\bicon=\"([a-z0-9-]+)\"")


def names() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "templates").rglob("*.html")]
    used = {first or second for text in texts for first, second in IN_TEMPLATE.findall(text)}
    used |= {status.icon for status in statuses._STATUSES.values()} | {statuses.status_of("never heard of").icon}
    return used | {entry[2] for groups in shell._ENTRIES.values() for group in groups for entry in group}


@pytest.mark.parametrize("name", sorted(names()))
def test_an_icon_exists(name: str):
    assert lucide._load_icon(name) is not None
