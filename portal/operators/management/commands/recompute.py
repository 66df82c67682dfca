"""`manage.py recompute`: compute a charge or a statement again from what was delivered, or from exported files."""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from poolhouse_common import recount
from poolhouse_common.exports import BadFile

from portal.billing.services import recompute
from portal.billing.services.recompute import Charge
from portal.core.errors import NotFound
from portal.core.money import decimal_text

_EXAMPLE = """examples:
  manage.py recompute request 019e5d2c-7d1e-7a31-9c1f-3d1c7a1b2c3d
  manage.py recompute statement C-2026-11-0001
  manage.py recompute files --usage requests.csv --prices prices.json --statement statement-2026-11.json
  manage.py recompute files --usage served.csv --prices prices.json --payout payout_….json

`files` asks no database. Customers and providers download these files beside their statements, and run the same
without this pool: `python -m poolhouse_common.recount --help`. Receipts: `poolhouse-agent receipts verify --help`.
"""


class Command(BaseCommand):
    """Exits with 1 where the result differs from what is stored."""

    help = "Compute a request's charge or a statement again and compare it with what is stored."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the examples' line ends in the help."""
        return super().create_parser(
            prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, epilog=_EXAMPLE, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take what to compute and its name."""
        verbs = parser.add_subparsers(dest="what", required=True)
        verbs.add_parser("request", help="a stored request").add_argument("name", help="the request's id")
        verbs.add_parser("statement", help="a frozen statement").add_argument("name", help="the statement's number")
        recount.add_arguments(verbs.add_parser("files", help="exported files; asks no database"))

    def handle(self, *_: object, **options: Any) -> None:
        """Print the computation."""
        if options["what"] == "files":
            self._files(options)
            return
        try:
            is_right = (self._request if options["what"] == "request" else self._statement)(options["name"])
        except NotFound as error:
            raise CommandError(error.message) from error
        if not is_right:
            raise CommandError("what is stored differs from what it comes to")

    def _files(self, options: dict[str, Any]) -> None:
        try:
            verdicts = recount.from_files(
                prices=options["prices"],
                usage=options["usage"],
                statement_file=options["statement"],
                payout_file=options["payout"],
            )
        except BadFile as error:
            raise CommandError(f"file_unreadable: {error}", returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps([one.to_json() for one in verdicts], indent=1))
        else:
            self.stdout.write("\n".join(line for one in verdicts for line in recount.told(one)))
        if not all(one.is_right for one in verdicts):
            raise CommandError("the files do not come to what they say")

    def _request(self, name: str) -> bool:
        try:
            request_id = UUID(name)
        except ValueError as error:
            raise CommandError(f"{name!r} is not a request id") from error
        charges = recompute.request(request_id=request_id)
        for charge in charges:
            self._print(charge)
        return all(charge.is_right for charge in charges)

    def _print(self, charge: Charge) -> None:
        self.stdout.write(f"request {charge.request_id} attempt {charge.attempt}, price version {charge.price_version}")
        for line in charge.lines:
            self.stdout.write(f"  {line.quantity} {line.label} at {decimal_text(line.unit_nano)}")
        self.stdout.write(f"  rated {decimal_text(charge.rated_nano)}, held {decimal_text(charge.hold_nano)}")
        self.stdout.write(
            f"  charge {decimal_text(charge.expected_nano)}, recorded {decimal_text(charge.recorded_nano)}, "
            f"booked {'not yet' if charge.booked_nano is None else decimal_text(charge.booked_nano)}"
        )
        self.stdout.write(
            f"  share {decimal_text(charge.expected_provider_nano)}, "
            f"recorded {decimal_text(charge.recorded_provider_nano)}"
            f"{f', withheld: {charge.withheld}' if charge.withheld else ''}"
        )
        self.stdout.write("  equal" if charge.is_right else "  DIFFERS")

    def _statement(self, name: str) -> bool:
        again = recompute.statement(number=name)
        self.stdout.write(f"{again.number} frozen {again.frozen_sha256}\n{again.number} again  {again.computed_sha256}")
        return again.is_right
