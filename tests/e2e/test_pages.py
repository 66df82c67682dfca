"""Every page, looked at in a browser: accessible, within the policy, light, no wider than its window."""

import pytest

from tests.e2e.browser import Visit
from tests.e2e.pages import AUDIENCES, pages_for
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

MAX_BYTES, MAX_REQUESTS, MAX_ELEMENTS = 300_000, 10, 1_500
LOOKS = [(1360, "light"), (1360, "dark"), (390, "light")]


@pytest.mark.parametrize("audience", AUDIENCES)
def test_pages_are_sound(lived_in: World, visit, audience: str):
    pages = pages_for(lived_in, audience)
    windows: dict[tuple[int | None, int, str], Visit] = {}
    problems = []

    for page in pages:
        for width, theme in LOOKS:
            key = (page.user.pk if page.user else None, width, theme)
            window = windows.get(key) or windows.setdefault(key, visit(page.user, width=width, theme=theme))
            problems += [f"{page.name} at {width} {theme}: {problem}" for problem in _problems(window, page.url)]

    assert pages
    assert not problems, "\n".join(problems)


def _problems(window: Visit, url: str) -> list[str]:
    response = window.open(url)
    found = [*window.complaints, *window.accessibility()]
    if "default-src 'none'" not in response.headers["content-security-policy"]:
        found.append("no content security policy")
    if window.sideways_scroll() > 0:
        found.append(f"{window.sideways_scroll()} px too wide")
    size, answers = window.weight()
    if size > MAX_BYTES or answers > MAX_REQUESTS:
        found.append(f"{size} bytes in {answers} answers")
    elements = int(window.page.evaluate("document.querySelectorAll('*').length"))
    if elements > MAX_ELEMENTS:
        found.append(f"{elements} elements")
    return found
