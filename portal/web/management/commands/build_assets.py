"""`manage.py build_assets`: make the page font from the Inter wheel. Without it pages use the system's font."""

import logging
from argparse import ArgumentParser
from importlib.resources import files
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

_CSS = """@font-face {
  font-family: "Inter var";
  src: url("inter.woff2") format("woff2");
  font-weight: 400 700;
  font-display: swap;
}
"""
# Latin with its European accents, punctuation, currency signs, arrows and the true minus.
_RANGES = [(0x20, 0x7E), (0xA0, 0x17F), (0x2010, 0x2027), (0x2030, 0x203A), (0x20A0, 0x20BF), (0x2190, 0x2193)]
_SINGLES = [0x2212, 0x2248, 0x2264, 0x2265, 0x2026, 0xD7]
_FEATURES = ["kern", "liga", "calt", "tnum", "ccmp", "locl", "mark", "mkmk"]


class Command(BaseCommand):
    """Writes `static/generated/inter.woff2` and its stylesheet."""

    help = "Make the page font (static/generated/). Example: manage.py build_assets"
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--into", default=str(settings.BASE_DIR / "static" / "generated"))

    def handle(self, *args: Any, **options: Any) -> None:
        """Subset, fix the optical size, keep the weights 400 to 700, compress."""
        del args
        logging.getLogger("fontTools").setLevel(logging.WARNING)
        folder = Path(options["into"])
        folder.mkdir(parents=True, exist_ok=True)
        target = folder / "inter.woff2"
        _build(target)
        (folder / "font.css").write_text(_CSS, encoding="utf-8")
        self.stdout.write(f"{target}: {target.stat().st_size / 1024:.1f} KiB")


def _build(target: Path) -> None:
    font = TTFont(str(_source()))
    wanted = [code for low, high in _RANGES for code in range(low, high + 1)] + _SINGLES
    chosen = Options()
    chosen.layout_features = _FEATURES
    chosen.flavor = "woff2"
    chosen.hinting = False
    subsetter = Subsetter(chosen)
    subsetter.populate(unicodes=wanted)
    subsetter.subset(font)
    instantiateVariableFont(font, {"opsz": 14, "wght": (400, 700)}, inplace=True)
    font.flavor = "woff2"
    font.save(str(target))


def _source() -> Path:
    found = sorted(Path(str(files("fontpkg_inter"))).rglob("*.ttf"))
    upright = [path for path in found if "italic" not in path.name.lower()]
    if not upright:
        raise FileNotFoundError("the fontpkg-inter wheel holds no upright font")
    return upright[0]
