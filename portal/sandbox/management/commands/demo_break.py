"""`manage.py demo_break`: kill a part of the running demo and prove that nothing was lost."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from portal.sandbox import demo, demo_break


class Command(BaseCommand):
    """Breaks one part of the demo that runs in another terminal."""

    help = "Kill a part of the running demo while streams run. Example: manage.py demo_break gateway"
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what is to be broken."""
        parser.add_argument("what", choices=["node", *sorted(demo_break.TARGETS)])
        parser.add_argument("--folder", type=Path, default=demo.FOLDER, help="the state of the running demo")

    def handle(self, *_: Any, **options: Any) -> None:
        """Break it and exit with 0 where nothing was lost."""
        raise SystemExit(demo_break.run(options["what"], folder=options["folder"]))
