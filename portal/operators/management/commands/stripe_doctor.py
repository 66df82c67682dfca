"""`manage.py stripe_doctor`: is Stripe set up so that the first purchase and the first payout will work?"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import asdict

from django.core.management.base import BaseCommand, CommandError

from portal.core import clock
from portal.integrations.stripe_errors import PaymentError
from portal.operators import stripe_setup

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
        try:
            findings = stripe_setup.examine(now=clock.now())
        except PaymentError as error:
            raise CommandError(f"Stripe could not be asked: {error.code}: {error.message}") from error
        if options["json"]:
            self.stdout.write(json.dumps({"checks": [asdict(one) for one in findings]}))
        for one in [] if options["json"] else findings:
            self.stdout.write(f"{one.status:5} {one.id:28} {one.detail}")
            if one.status != "ok":
                lines = [("cause", one.cause), ("fix", one.fix)]
                self.stdout.write("".join(f"{'':34} {name}: {text}\n" for name, text in lines if text).rstrip("\n"))
        if any(one.status == "fail" for one in findings):
            sys.exit(1)
