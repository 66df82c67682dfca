"""Pictures of every page in both themes and two widths (`make screenshots`), into an ignored folder.

ONLY= takes a regular expression of the pages' names, such as `customer:key|operators:node$`.
"""

import os
import re
from pathlib import Path

import pytest

from tests.e2e.pages import AUDIENCES, pages_for
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

FOLDER = Path(os.environ.get("SCREENSHOTS", "screenshots"))
ONLY = re.compile(os.environ.get("ONLY", ""))


@pytest.mark.parametrize("audience", AUDIENCES)
def test_take(lived_in: World, visit, audience: str):
    FOLDER.mkdir(parents=True, exist_ok=True)

    pages = [page for page in pages_for(lived_in, audience) if ONLY.search(page.name)]
    for page in pages:
        for width in (1360, 390):
            for theme in ("light", "dark"):
                window = visit(page.user, width=width, theme=theme)
                window.open(page.url)
                name = page.name.replace(":", "-")
                window.page.screenshot(path=FOLDER / f"{name}-{width}-{theme}.png", full_page=True)
                window.context.close()

    assert not pages or any(FOLDER.iterdir())
