"""A browser as a test uses it: opened for one person, noting everything it complains of."""

from dataclasses import dataclass, field

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Response

_WEIGHT = """() => {
  const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return [all.reduce((sum, entry) => sum + entry.encodedBodySize, 0), all.length];
}"""
_AXE_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@dataclass
class Visit:
    """One page in one browser context. `complaints` are console messages, page errors and policy violations."""

    context: BrowserContext
    page: Page
    complaints: list[str] = field(default_factory=list)

    def open(self, url: str) -> Response:
        """Go there and wait until all is loaded; start noting anew."""
        self.complaints.clear()
        response = self.page.goto(url, wait_until="load")
        assert response is not None
        return response

    def weight(self) -> tuple[int, int]:
        """Return the bytes of body the page took as sent, and in how many answers."""
        return tuple(self.page.evaluate(_WEIGHT))

    def accessibility(self) -> list[str]:
        """Return what axe finds wrong."""
        found = Axe().run(self.page, options={"runOnly": {"type": "tag", "values": _AXE_TAGS}})
        return [
            f"{violation['id']}: {violation['help']} ({violation['nodes'][0]['html'][:160]})"
            for violation in found.response["violations"]
        ]

    def sideways_scroll(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        return int(self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth"))


def note_complaints(visit: Visit) -> None:
    """Listen to everything the page may complain of."""
    page = visit.page
    page.on("console", lambda message: _note(visit, message))
    page.on("pageerror", lambda error: visit.complaints.append(f"error: {error}"))
    page.add_init_script(
        "document.addEventListener('securitypolicyviolation',"
        " event => console.error('CSP', event.violatedDirective, event.blockedURI))"
    )


def _note(visit: Visit, message: ConsoleMessage) -> None:
    """Keep what a developer would have to look at; Chromium's own hints on forms are `debug`."""
    if message.type != "debug" and not message.text.startswith("[DOM]"):
        visit.complaints.append(f"{message.type}: {message.text}")
