"""`manage.py payouts`: draft, approve, run and show payouts from a terminal or a script."""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import datetime

from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import User
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.core import clock
from portal.core.errors import DomainError
from portal.payouts.models import OPEN_STATES, Payout, PayoutState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import approvals, drafts, runs

_EXAMPLES = """examples:
  manage.py payouts draft --dry-run           who would be paid, who is skipped and why
  manage.py payouts draft                     reserve the payouts
  manage.py payouts approve --all --by ops@example.com
  manage.py payouts run                       look up payouts in doubt, send the approved ones
  manage.py payouts show --json               every open payout, or `show payout_…` for one
"""
Lines = list[dict[str, object]]


class Command(BaseCommand):
    """Draft, approve, run and show payouts."""

    help = "Pay providers: draft, approve, run, show."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> ArgumentParser:  # type: ignore[override]  # Django's own type is narrower
        """Show examples below the options."""
        return super().create_parser(
            prog_name, subcommand, epilog=_EXAMPLES, formatter_class=RawDescriptionHelpFormatter
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the verb and its options."""
        parser.add_argument("verb", choices=["draft", "approve", "run", "show"])
        parser.add_argument("payouts", nargs="*", metavar="payout", help="public ids, for approve and show")
        parser.add_argument("--all", action="store_true", help="approve: every reserved payout")
        parser.add_argument("--by", default="", metavar="EMAIL", help="approve: the operator who says yes")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *_: object, **options: object) -> None:
        """Do what the verb says; a refusal ends with exit status 1 and its code."""
        verbs = {"draft": self._draft, "approve": self._approve, "run": self._run, "show": self._show}
        try:
            lines = verbs[str(options["verb"])](options, clock.now())
        except DomainError as error:
            raise CommandError(f"{error.code}: {error.message}" + (f" ({error.fix})" if error.fix else "")) from error
        self._print(lines, as_json=options["json"] is True)

    def _draft(self, options: dict[str, object], now: datetime) -> Lines:
        if options["dry_run"]:
            seen = drafts.preview(now=now)
            due: Lines = [
                {"provider": one.provider.public_id, "amount_minor": one.amount_minor, "would": "reserve"}
                for one in seen.due
            ]
            return due + [_skipped(one) for one in seen.skipped]
        run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)
        return [_line(payout) for payout in run.payouts] + [_skipped(one) for one in run.skipped]

    def _approve(self, options: dict[str, object], now: datetime) -> Lines:
        approver = User.objects.filter(email=str(options["by"]).lower()).first()
        if approver is None:
            raise CommandError("name the operator who approves: --by EMAIL")
        wanted = _named(options)
        if options["all"]:
            wanted = list(Payout.objects.filter(state=PayoutState.RESERVED).order_by("pk"))
        if options["dry_run"]:
            return [{**_line(payout), "would": "approve"} for payout in wanted]
        actor = Actor(public_id=approver.public_id)
        return [
            _line(approvals.approve(payout_public_id=payout.public_id, approver=approver, actor=actor, now=now))
            for payout in wanted
        ]

    def _run(self, options: dict[str, object], now: datetime) -> Lines:
        if options["dry_run"]:
            waiting = Payout.objects.filter(pk__in=selectors.to_send()).order_by("pk")
            return [{**_line(payout), "would": "send"} for payout in waiting]
        done = runs.run(now=now)
        changed = {*done.reconciled, *done.sent, *done.waiting}
        return [_line(payout) for payout in Payout.objects.filter(public_id__in=changed).order_by("pk")]

    def _show(self, options: dict[str, object], now: datetime) -> Lines:
        named = _named(options)
        rows = named or list(Payout.objects.filter(state__in=OPEN_STATES).order_by("created_at", "pk"))
        return [_line(payout) for payout in rows]

    def _print(self, lines: Lines, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(lines))
            return
        for line in lines:
            self.stdout.write("  ".join(f"{name}={value}" for name, value in line.items() if value not in ("", None)))
        if not lines:
            self.stdout.write("nothing")


def _named(options: dict[str, object]) -> list[Payout]:
    names = options["payouts"]
    return [selectors.payout(str(name)) for name in names] if isinstance(names, list) else []


def _line(payout: Payout) -> dict[str, object]:
    return {
        "payout": payout.public_id,
        "provider": payout.provider.public_id,
        "state": payout.state,
        "amount_minor": payout.amount_minor,
        "currency": payout.currency,
        "destination": payout.destination,
        "transfer": payout.stripe_transfer,
        "reason": payout.state_reason,
    }


def _skipped(one: drafts.Skipped) -> dict[str, object]:
    return {
        "provider": one.provider.public_id,
        "skipped": one.reason.code,
        "reason": f"{one.reason.text} {one.reason.detail}".strip(),
        "available_nano": one.available_nano,
    }
