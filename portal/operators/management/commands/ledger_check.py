"""`manage.py ledger_check`: compare the ledger, usage, statements, payouts and Stripe's books with one another."""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.core import clock
from portal.payouts.services import ledger_checks

_EXAMPLE = """example:
  manage.py ledger_check
  manage.py ledger_check --without-stripe
  manage.py ledger_check --json | jq '.differences[].code'
"""


class Command(BaseCommand):
    """Exits with 1 where anything differs; the result is kept and shown in the console, as the nightly one is."""

    help = "Compare the ledger with everything it must equal, Stripe's own books among it; exit 1 on any difference."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the example's line ends in the help."""
        return super().create_parser(
            prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, epilog=_EXAMPLE, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add --json and --without-stripe."""
        parser.add_argument("--json", action="store_true", help="print one JSON object")
        parser.add_argument("--without-stripe", action="store_true", help="do not ask Stripe; compare what is here")

    def handle(self, *_: object, **options: Any) -> None:
        """Print the differences, all read from one snapshot."""
        checked = ledger_checks.run(now=clock.now(), with_stripe=not options["without_stripe"])
        found = checked.differences
        if options["json"]:
            body = {
                "differences": [asdict(each) for each in found],
                "count": len(found),
                "stripe": checked.stripe_problem or "compared",
            }
            self.stdout.write(json.dumps(body))
        else:
            for each in found:
                self.stdout.write(f"{each.code}  {each.subject}: expected {each.expected}, found {each.actual}")
            self.stdout.write("no differences" if not found else f"{len(found)} differences")
            if checked.stripe_problem:
                self.stdout.write(f"Stripe's books were not compared: {checked.stripe_problem}")
        if found:
            raise CommandError(f"the ledger has {len(found)} differences", returncode=1)
