"""`manage.py ledger_check`: compare the ledger, usage, earnings, statements and payouts with one another."""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.billing.services import reconcile as billing
from portal.core import clock, db
from portal.payouts.selectors import reconcile as payouts

_EXAMPLE = """example:
  manage.py ledger_check
  manage.py ledger_check --json | jq '.differences[].code'
"""


class Command(BaseCommand):
    """Exits with 1 where anything differs."""

    help = "Compare the ledger with everything it must equal; exit 1 on any difference."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the example's line ends in the help."""
        return super().create_parser(
            prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, epilog=_EXAMPLE, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add --json."""
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *_: object, **options: Any) -> None:
        """Print the differences, all read from one snapshot."""
        now = clock.now()
        with db.one_snapshot():
            found = [*billing.differences(now=now), *payouts.differences(now=now)]
        if options["json"]:
            self.stdout.write(json.dumps({"differences": [asdict(each) for each in found], "count": len(found)}))
        else:
            for each in found:
                self.stdout.write(f"{each.code}  {each.subject}: expected {each.expected}, found {each.actual}")
            self.stdout.write("no differences" if not found else f"{len(found)} differences")
        if found:
            raise CommandError(f"the ledger has {len(found)} differences", returncode=1)
