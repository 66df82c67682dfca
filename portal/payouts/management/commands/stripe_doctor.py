"""`manage.py stripe_doctor`: is Stripe set up so that the first purchase and the first payout will work?"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import asdict

from django.core.management.base import BaseCommand

from portal.core import clock
from portal.payouts.services import doctor

_EXAMPLES = """examples:
  manage.py stripe_doctor
  manage.py stripe_doctor --json
"""


class Command(BaseCommand):
    """Check keys, secrets, the platform's account, its balance and Connect."""

    help = "Check the setup at Stripe; exit status 1 where something fails."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> ArgumentParser:  # type: ignore[override]  # Django's own type is narrower
        """Show examples below the options."""
        return super().create_parser(
            prog_name, subcommand, epilog=_EXAMPLES, formatter_class=RawDescriptionHelpFormatter
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the output format."""
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *_: object, **options: object) -> None:
        """Print each finding."""
        findings = doctor.examine(now=clock.now())
        if options["json"]:
            self.stdout.write(json.dumps({"checks": [asdict(one) for one in findings]}))
        for one in [] if options["json"] else findings:
            fix = f"  → {one.fix}" if one.fix and one.status != "ok" else ""
            self.stdout.write(f"{one.status:5} {one.id:28} {one.detail}{fix}")
        if any(one.status == "fail" for one in findings):
            sys.exit(1)
