"""`manage.py stripe_doctor`: is Stripe set up so that the first purchase and the first payout will work?"""

import json
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from dataclasses import asdict

from django.core.management.base import BaseCommand

from portal.core import clock
from portal.operators import stripe_setup
from portal.payouts.services.doctor import Finding

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
        findings = stripe_setup.examine(now=clock.now())
        if options["json"]:
            self.stdout.write(json.dumps({"checks": [asdict(one) for one in findings]}))
        else:
            self._print(findings)
        if any(one.status == "fail" for one in findings):
            sys.exit(1)

    def _print(self, findings: list[Finding]) -> None:
        """Print a line a finding, its cause and its fix below it, and at the end how many need somebody."""
        width = max(len(one.id) for one in findings)
        for one in findings:
            self.stdout.write(f"{one.status:5} {one.id:{width}} {one.detail}")
            for name, text in (("cause", one.cause), ("fix", one.fix)):
                if text and one.status != "ok":
                    self.stdout.write(f"{'':{width + 6}} {name}: {text}")
        found = Counter(one.status for one in findings)
        self.stdout.write(f"{found['fail']} fail, {found['warn']} warn, {found['ok']} ok")
