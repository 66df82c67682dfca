"""`manage.py recover`: make held credit agree with its leases; after an old backup, take over what happened since."""

import getpass
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime
from poolhouse_common import exports

from portal.audit.services import Actor
from portal.billing.models import Recovery
from portal.billing.services import found_objects, freeze, lease_sweep, posting, recovery, replay, usage_recovery
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.money import decimal_text
from portal.integrations.stripe_errors import PaymentError
from portal.metering.services import spool_files
from portal.payouts.services import recovery as stripe_recovery
from portal.payouts.services import stripe_books
from portal.webhooks.services import catch_up

_EXAMPLE = """examples:
  manage.py recover            # say what differs of held credit, change nothing (exit 1 where something does)
  manage.py recover --apply    # end expired leases, set what is held to what the leases say, audited

after a backup was restored, before anything else is started:
  manage.py recover --after-restore                      # what Stripe has done since; changes nothing
  manage.py recover --after-restore --apply \\
      --spools /var/lib/poolhouse/spool --receipts node-1.jsonl node-2.jsonl
  manage.py ledger_check
  manage.py recover --thaw                               # let payments go on
  manage.py recover --release tr_123 --reason "…"        # you have dealt with what was left unexplained

--apply stops all payouts, refunds and automatic purchases first, then sets money aside for everything at Stripe that
the books do not know, and takes it over. It may be repeated. Nodes print their receipts with
`poolhouse-agent receipts show --all --json`.
"""


class Command(BaseCommand):
    """Exits with 1 where something differs and was not repaired."""

    help = "Compare held credit with its leases; --after-restore takes over what happened since an old backup."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the example's line ends in the help."""
        return super().create_parser(
            prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, epilog=_EXAMPLE, **kwargs
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the options."""
        parser.add_argument("--apply", action="store_true", help="repair what differs, take over what is missing")
        parser.add_argument("--after-restore", action="store_true", help="an old backup was restored")
        parser.add_argument("--thaw", action="store_true", help="let payments go on after a recovery")
        parser.add_argument("--release", metavar="ID", help="put back what was set aside for this unexplained object")
        parser.add_argument("--reason", default="", help="what you did about it; it is written into the audit log")
        parser.add_argument("--since", help="the last moment that the backup knows (default: its last booking)")
        parser.add_argument("--spools", type=Path, help="a folder with spools of gateways that no longer run")
        parser.add_argument(
            "--receipts", type=Path, nargs="+", action="extend", default=[], help="receipts of nodes, one a line"
        )

    def handle(self, *_: object, **options: Any) -> None:
        """Do one of the four."""
        now, actor = clock.now(), Actor(public_id=f"shell:{getpass.getuser()}"[:64])
        try:
            if options["thaw"]:
                self._thaw(actor, now)
            elif options["release"]:
                self._release(options["release"], options["reason"].strip(), actor, now)
            elif options["after_restore"]:
                self._after_restore(options, actor, now)
            else:
                self._holds(actor, now, is_applied=options["apply"])
        except PaymentError as error:
            raise CommandError(f"Stripe could not be asked: {error.code}: {error.message}. Run this again.") from error
        except exports.BadFile as error:
            raise CommandError(f"file_unreadable: {error}") from error
        except DomainError as error:
            raise CommandError(f"{error.code}: {error.message}. {error.fix or ''}".strip()) from error

    def _holds(self, actor: Actor, now: datetime, *, is_applied: bool) -> None:
        """Derive what is held anew from the leases."""
        if is_applied:
            swept = lease_sweep.sweep(now=now)
            self.stdout.write(f"{swept.fenced} expired leases fenced, {swept.closed} closed")
        found = recovery.examine()
        for each in found:
            self.stdout.write(f"{each.kind} {each.subject}: {each.held_nano} nano held, leases say {each.leased_nano}")
        if not found:
            self.stdout.write("nothing differs")
        elif not is_applied:
            raise CommandError(f"{len(found)} differences; run with --apply to repair them", returncode=1)
        else:
            changed = sum(recovery.repair(difference=each, actor=actor, now=now) != 0 for each in found)
            self.stdout.write(f"{changed} of {len(found)} repaired")

    def _after_restore(self, options: dict[str, Any], actor: Actor, now: datetime) -> None:
        opened = freeze.current()
        until = opened.known_until if opened else _known_until(options["since"])
        since = until - stripe_recovery.OVERLAP
        self.stdout.write(f"the books know everything up to {until:%Y-%m-%dT%H:%M:%SZ}")
        self._look_at_files(options)
        if not options["apply"]:
            self._say_what_is_missing(since, options["receipts"], actor, now)
            return
        row = opened or stripe_recovery.begin(known_until=until, actor=actor, now=now)
        self.stdout.write(f"{row.public_id}: payouts, refunds and automatic purchases rest")
        self._take_over(row, since, options, actor, now)
        self._holds(actor, now, is_applied=True)
        self._say_what_is_left()

    def _look_at_files(self, options: dict[str, Any]) -> None:
        """Find out what cannot be read before anything is changed. Raises BadFile."""
        if options["spools"] and not options["spools"].is_dir():
            raise exports.BadFile(options["spools"], "is not a folder")
        if options["receipts"]:
            count = sum(1 for _ in exports.receipts(options["receipts"]))
            self.stdout.write(f"{count} receipts in {len(options['receipts'])} files")

    def _say_what_is_missing(self, since: datetime, receipts: list[Path], actor: Actor, now: datetime) -> None:
        found = list(stripe_recovery.look(since=since).found())
        for one in found:
            self.stdout.write(
                f"{one.kind:<9}{one.stripe_id}  {one.amount_minor} {one.currency}  of {one.owner or 'nobody known'}"
                f"  {one.reference}"
            )
        if receipts:
            nobody = Recovery(public_id="dry", known_until=since, started_at=now)
            told = exports.receipts(receipts)
            self._say_taken(usage_recovery.take_over(recovery=nobody, found=told, actor=actor, now=now, is_dry=True))
        if found:
            raise CommandError(f"{len(found)} of Stripe's objects are not in the books; run with --apply", returncode=1)
        self.stdout.write("Stripe has nothing that the books do not know")

    def _take_over(self, row: Recovery, since: datetime, options: dict[str, Any], actor: Actor, now: datetime) -> None:
        """Set everything aside, then take over: purchases and what goes back, usage, last what was paid out."""
        world = stripe_recovery.look(since=since)
        aside = stripe_recovery.set_aside(recovery=row, world=world, actor=actor, now=now)
        frozen = sum(one.frozen_nano for one in aside)
        self.stdout.write(f"{len(aside)} objects at Stripe are not in the books, {decimal_text(frozen)} set aside")
        done = stripe_recovery.take_over_purchases(world=world, actor=actor, now=now)
        self._usage(row, options, actor, now)
        done += stripe_recovery.take_over_transfers(world=world, actor=actor, now=now)
        self.stdout.write(", ".join(f"{count} {state}" for state, count in sorted(done.items())) or "nothing to do")
        events = catch_up.catch_up(now=now)
        books = stripe_books.sync(now=now)
        self.stdout.write(f"{events} events fetched again, {books.new} lines of Stripe's books new")

    def _usage(self, row: Recovery, options: dict[str, Any], actor: Actor, now: datetime) -> None:
        if options["spools"]:
            for path in spool_files.list_spools(options["spools"]):
                replayed = replay.replay(path=path, now=now)
                told = f"{replayed.records} records" if replayed else "its process lives, left alone"
                self.stdout.write(f"{path.spool_id}: {told}")
        if options["receipts"]:
            found = exports.receipts(options["receipts"])
            self._say_taken(usage_recovery.take_over(recovery=row, found=found, actor=actor, now=now))
        posted = posting.post_all(now=now)
        self.stdout.write(f"{posted.records} usage records booked, {posted.unpostable} cannot be")

    def _say_taken(self, taken: usage_recovery.Taken) -> None:
        left = ", ".join(f"{count} {code}" for code, count in sorted(taken.left_out.items())) or "none"
        self.stdout.write(
            f"receipts: {taken.new} attempts to take over worth {decimal_text(taken.charge_nano)}, "
            f"{taken.known} known, left out: {left}"
        )

    def _say_what_is_left(self) -> None:
        for one in freeze.unexplained():
            self.stdout.write(
                f"UNEXPLAINED {one.kind} {one.stripe_id}  {one.amount_minor} {one.currency}  of "
                f"{one.owner or 'nobody known'}, {decimal_text(one.frozen_nano)} stay set aside: {one.why}"
            )
        self.stdout.write("next: `manage.py ledger_check`, then `manage.py recover --thaw`")

    def _thaw(self, actor: Actor, now: datetime) -> None:
        row = freeze.end(actor=actor, now=now)
        left = freeze.unexplained()
        self.stdout.write(f"{row.public_id} is over: payments go on; {len(left)} objects stay set aside")
        self._list(left)

    def _release(self, stripe_id: str, reason: str, actor: Actor, now: datetime) -> None:
        if not reason:
            raise CommandError("--release needs --reason: it is written into the audit log")
        row = found_objects.release(stripe_id=stripe_id, reason=reason, actor=actor, now=now)
        self.stdout.write(f"{row.kind} {stripe_id}: {decimal_text(row.frozen_nano)} went back to where it came from")

    def _list(self, left: list[Any]) -> None:
        for one in left:
            self.stdout.write(f"  {one.kind} {one.stripe_id}: {one.why}")


def _known_until(given: str | None) -> datetime:
    moment = parse_datetime(given) if given else stripe_recovery.known_until()
    if moment is None:
        raise CommandError("--since: a moment like 2026-11-30T12:00:00Z; the books are empty and name none themselves")
    if moment.tzinfo is None:
        raise CommandError("--since needs a time zone, such as 2026-11-30T12:00:00Z")
    return moment
