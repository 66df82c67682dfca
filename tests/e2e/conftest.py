"""Browser tests: Debian's Chromium, a live portal, the world with a month of life."""

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, sync_playwright

from portal.accounts.models import User
from portal.core import clock
from tests.e2e.browser import Visit, note_complaints
from tests.e2e.seeds import fill
from tests.world import World

Open = Callable[..., Visit]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """One browser for all tests."""
    path = os.environ.get("POOLHOUSE_CHROMIUM") or shutil.which("chromium")
    if path is None:
        pytest.fail("browser tests need Chromium: run `make e2e`, or set POOLHOUSE_CHROMIUM")
    # Playwright runs an event loop in this thread, which Django would take for asynchronous code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def lived_in(live_server, world: World) -> World:
    """The world with a month of life."""
    fill(world, clock.now())
    return world


@pytest.fixture
def visit(chromium: Browser, live_server) -> Iterator[Open]:
    """Open a browser window: `visit(user, width=…, theme=…, scripts=…)`."""
    opened: list[Visit] = []

    def open_window(
        user: User | None = None, *, width: int = 1360, theme: str = "light", scripts: bool = True
    ) -> Visit:
        context = chromium.new_context(
            base_url=live_server.url,
            viewport={"width": width, "height": 900},
            java_script_enabled=scripts,
        )
        cookies = {"theme": theme}
        if user is not None:
            browser = Client()
            browser.force_login(user)
            cookies[settings.SESSION_COOKIE_NAME] = browser.cookies[settings.SESSION_COOKIE_NAME].value
        context.add_cookies([{"name": name, "value": value, "url": live_server.url} for name, value in cookies.items()])
        window = Visit(context=context, page=context.new_page())
        note_complaints(window)
        opened.append(window)
        return window

    yield open_window
    for window in opened:
        window.context.close()
