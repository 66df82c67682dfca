"""The colour tokens of static/app.css: text at 4.5 to 1, controls and chart marks at 3 to 1, in both themes."""

import re
from pathlib import Path

import pytest

CSS = (Path(__file__).parents[3] / "static" / "app.css").read_text(encoding="utf-8")
TEXT = [
    ("text", "surface"), ("text", "bg"), ("text", "sunken"),
    ("muted", "surface"), ("muted", "bg"), ("muted", "sunken"),
    ("accent-text", "surface"), ("accent-text", "bg"), ("accent-text", "sunken"), ("on-accent", "accent"),
    ("ok-text", "ok-tint"), ("warn-text", "warn-tint"), ("crit-text", "crit-tint"), ("info-text", "info-tint"),
    ("crit-text", "surface"), ("on-accent", "accent-text"),
]  # fmt: skip
MARKS = [("line-strong", "surface"), ("accent", "bg"), ("accent", "surface")] + [
    (name, "surface")
    for name in ["ok-fill", "warn-fill", "crit-fill", "none-fill", *[f"series-{n}" for n in range(1, 7)]]
]


def themes() -> dict[str, dict[str, str]]:
    """Return each block's tokens: light, dark by choice, dark by the system."""
    blocks = re.findall(r'\[data-theme="(light|dark|auto)"\]\s*\{([^}]*)\}', CSS)
    return {name: dict(re.findall(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})", body)) for name, body in blocks}


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_black_on_white_is_twenty_one():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_the_systems_dark_is_the_chosen_dark():
    found = themes()

    assert set(found) == {"light", "dark", "auto"}
    assert found["auto"] == found["dark"]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read(theme: str):
    tokens = themes()[theme]

    weak = {pair: round(contrast(tokens[pair[0]], tokens[pair[1]]), 2) for pair in TEXT}

    assert {pair: ratio for pair, ratio in weak.items() if ratio < 4.5} == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_controls_and_marks_can_be_seen(theme: str):
    tokens = themes()[theme]

    weak = {pair: round(contrast(tokens[pair[0]], tokens[pair[1]]), 2) for pair in MARKS}

    assert {pair: ratio for pair, ratio in weak.items() if ratio < 3} == {}
