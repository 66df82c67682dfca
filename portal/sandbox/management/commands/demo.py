"""`manage.py demo`: the whole pool on this machine."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from portal.sandbox import demo


class Command(BaseCommand):
    """Runs the demo in the foreground until Ctrl-C, or once to the payout."""

    help = "Run the whole pool on this machine. Example: manage.py demo --port 8000, or manage.py demo --once"
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add what the Makefile hands through."""
        parser.add_argument("--port", type=int, default=8000, help="where the portal listens; every other port is free")
        parser.add_argument("--once", action="store_true", help="two requests, settle, pay out, print one JSON line")
        parser.add_argument("--folder", type=Path, default=demo.FOLDER, help="where its state lies (not with --once)")
        parser.add_argument("--engine", choices=["simulate", "vllm"], default="simulate")
        parser.add_argument("--engine-url", default="", help="serve from an OpenAI-compatible server that runs already")

    def handle(self, *_: Any, **options: Any) -> None:
        """Run it and exit with its code."""
        raise SystemExit(
            demo.run(
                demo.Options(
                    port=options["port"],
                    folder=options["folder"],
                    is_once=options["once"],
                    engine=options["engine"],
                    engine_url=options["engine_url"],
                )
            )
        )
