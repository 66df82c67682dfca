"""No template carries an inline style, script or handler: the content security policy would refuse it."""

import re
from pathlib import Path

import pytest

TEMPLATES = Path(__file__).parents[3] / "templates"
FORBIDDEN = {
    "inline style": re.compile(r"\sstyle\s*=\s*[\"']"),
    "style element": re.compile(r"<style[\s>]"),
    "inline handler": re.compile(r"\son[a-z]+\s*=\s*[\"']"),
    "htmx handler": re.compile(r"\shx-on[:\w-]*\s*="),
    "foreign origin": re.compile(r"(?:src|href)=[\"']https?://"),
    "javascript link": re.compile(r"href=[\"']javascript:"),
}
SCRIPT = re.compile(r"<script\b([^>]*)>")


def pages() -> list[Path]:
    return sorted(TEMPLATES.rglob("*.html"))


def test_there_are_templates():
    assert len(pages()) > 20


@pytest.mark.parametrize("path", pages(), ids=lambda path: str(path.relative_to(TEMPLATES)))
def test_a_template_holds_the_policy(path: Path):
    text = path.read_text(encoding="utf-8")

    found = [name for name, pattern in FORBIDDEN.items() if pattern.search(text)]
    inline = [tag for tag in SCRIPT.findall(text) if "src=" not in tag and "application/json" not in tag]

    assert found == []
    assert inline == []
