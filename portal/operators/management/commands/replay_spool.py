"""`manage.py replay_spool`: bring in what dead gateway processes left in their spools, or give a lost spool up."""

import getpass
import os
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.audit.services import Actor
from portal.billing.services import abandoning, replay
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.money import decimal_text
from portal.metering.models import Spool, SpoolState
from portal.metering.services import spool_files
from portal.metering.services.spool_files import SpoolPath

_EXAMPLE = """example:
  manage.py replay_spool --list
  manage.py replay_spool --folder /var/lib/poolhouse/spool
  manage.py replay_spool --abandon spool_4t9kq0v2m6xw8c3ahjrn --reason "disk of gw-2 lost on 12 May"

Running gateways adopt spools by themselves within seconds; this is for hosts where none runs any more. Spools of living
processes are left alone. --abandon loses what the spool had not shipped: nobody is charged and nobody is paid for it.
"""


class Command(BaseCommand):
    """Exits with 1 where a spool could not be read."""

    help = (
        "Settle, ship and remove the spools of dead gateway processes; with --abandon give up one whose disk is lost."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the example's line ends in the help."""
        return super().create_parser(
            prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, epilog=_EXAMPLE, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the three ways to call it."""
        parser.add_argument("--folder", type=Path, help="where the spools lie (default: GATEWAY_SPOOL_DIR)")
        parser.add_argument("--list", action="store_true", help="list the spools that may still bring records")
        parser.add_argument("--abandon", metavar="SPOOL", help="give this spool up; needs --reason, and is audited")
        parser.add_argument("--reason", default="", help="why it is given up")

    def handle(self, *_: object, **options: Any) -> None:
        """Do one of the three."""
        if options["list"]:
            self._list()
        elif options["abandon"]:
            self._abandon(options["abandon"], options["reason"])
        else:
            self._replay(options["folder"])

    def _list(self) -> None:
        for spool in Spool.objects.filter(state=SpoolState.OPEN).order_by("opened_at", "id"):
            self.stdout.write(
                f"{spool.public_id}  {spool.process} on {spool.host}  shipped {spool.shipped_seq}  "
                f"last heard of {spool.seen_at:%Y-%m-%dT%H:%M:%SZ}"
            )

    def _abandon(self, spool_id: str, reason: str) -> None:
        if not reason.strip():
            raise CommandError("--abandon needs --reason: it is written into the audit log")
        actor = Actor(public_id=f"shell:{getpass.getuser()}"[:64])
        try:
            lost = abandoning.abandon(spool_id=spool_id, reason=reason.strip(), actor=actor, now=clock.now())
        except DomainError as error:
            raise CommandError(f"{error.code}: {error.message}. {error.fix or ''}".strip()) from error
        self.stdout.write(f"{lost.spool_id} of {lost.process} is given up after record {lost.shipped_seq}")
        self.stdout.write(
            f"what it served after that is unknown: at most {decimal_text(lost.unknown_nano)} "
            f"{settings.CURRENCY.upper()}, which nobody is charged or paid for; its customers have it back"
        )
        if lost.leases_waiting:
            self.stdout.write(f"{lost.leases_waiting} leases close as soon as their shipped charges are booked")

    def _replay(self, folder: Path | None) -> None:
        found = spool_files.list_spools(_folder(folder))
        failed = sum(not self._replay_one(path) for path in found)
        self.stdout.write(f"{len(found)} spools looked at, {failed} could not be brought in")
        if failed:
            raise CommandError(f"{failed} spools could not be brought in", returncode=1)

    def _replay_one(self, path: SpoolPath) -> bool:
        try:
            done = replay.replay(path=path, now=clock.now())
        except DomainError as error:
            self.stderr.write(f"{path.spool_id}: {error.code}: {error.message}")
            return False
        if done is None:
            self.stdout.write(f"{path.spool_id}: its process lives, left alone")
        else:
            self.stdout.write(f"{done.spool_id}: {done.records} records, {done.settled} of them settled from marks")
        return True


def _folder(given: Path | None) -> Path:
    folder = given or Path(os.environ.get("GATEWAY_SPOOL_DIR", ""))
    if not (given or os.environ.get("GATEWAY_SPOOL_DIR")) or not folder.is_dir():
        raise CommandError("no spool folder: pass --folder or set GATEWAY_SPOOL_DIR")
    return folder
