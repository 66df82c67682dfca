"""`manage.py recover`: after a disaster, derive held credit and leased budgets anew from the leases."""

import getpass
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.audit.services import Actor
from portal.billing.services import lease_sweep, recovery
from portal.core import clock

_EXAMPLE = """example:
  manage.py recover            # say what differs, change nothing (exit 1 where something does)
  manage.py recover --apply    # end expired leases, set what is held to what the leases say, audited

Run it after restoring a backup, then `manage.py ledger_check`. Bring in spools first: `manage.py replay_spool`.
"""


class Command(BaseCommand):
    """Exits with 1 where something differs and was not repaired."""

    help = "Compare held credit and leased budgets with the leases; with --apply make them agree."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the example's line ends in the help."""
        return super().create_parser(
            prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, epilog=_EXAMPLE, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add --apply."""
        parser.add_argument("--apply", action="store_true", help="repair what differs")

    def handle(self, *_: object, **options: Any) -> None:
        """Print the differences; repair them where asked to."""
        now = clock.now()
        if options["apply"]:
            swept = lease_sweep.sweep(now=now)
            self.stdout.write(f"{swept.fenced} expired leases fenced, {swept.closed} closed")
        found = recovery.examine()
        for each in found:
            self.stdout.write(f"{each.kind} {each.subject}: {each.held_nano} nano held, leases say {each.leased_nano}")
        if not found:
            self.stdout.write("nothing differs")
        elif not options["apply"]:
            raise CommandError(f"{len(found)} differences; run with --apply to repair them", returncode=1)
        else:
            actor = Actor(public_id=f"shell:{getpass.getuser()}"[:64])
            changed = sum(recovery.repair(difference=each, actor=actor, now=now) != 0 for each in found)
            self.stdout.write(f"{changed} of {len(found)} repaired")
