"""`manage.py payouts`: draft, check, approve, run and show payouts from a terminal or a script."""

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import datetime

from django.core.management.base import BaseCommand, CommandError

from portal.accounts.models import User
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.core import clock
from portal.core.errors import DomainError
from portal.payouts.models import OPEN_STATES, Payout, PayoutRun, PayoutState, RunOrigin
from portal.payouts.rules import findings
from portal.payouts.selectors import payouts as selectors
from portal.payouts.selectors import runs as run_selectors
from portal.payouts.services import drafts, run_approvals, run_checks, runs

_EXAMPLES = """examples:
  manage.py payouts draft --dry-run           who would be paid, who is skipped and why
  manage.py payouts draft                     reserve the payouts; the run is checked, its hash is printed
  manage.py payouts check --run run_…         check a run again: the ledger, the balance at Stripe, the doctor
  manage.py payouts show --run run_…          one run: its payouts, whom it skipped, its check and its hash
  manage.py payouts approve --run run_… --hash 3f… --by ops@example.com
  manage.py payouts approve --all --by ops@example.com    every run that waits, each checked first
  manage.py payouts run                       look up payouts in doubt, send the approved ones
  manage.py payouts show --json               every open payout, or `show payout_…` for one
"""
Lines = list[dict[str, object]]


class Command(BaseCommand):
    """Draft, check, approve, run and show payouts."""

    help = "Pay providers: draft, check, approve, run, show."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: object) -> ArgumentParser:  # type: ignore[override]  # Django's own type is narrower
        """Show examples below the options."""
        return super().create_parser(
            prog_name, subcommand, epilog=_EXAMPLES, formatter_class=RawDescriptionHelpFormatter
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Take the verb and its options."""
        parser.add_argument("verb", choices=["draft", "check", "approve", "run", "show"])
        parser.add_argument("payouts", nargs="*", metavar="payout", help="public ids, for approve and show")
        parser.add_argument("--all", action="store_true", help="approve: every run that waits, each checked first")
        parser.add_argument("--run", default="", metavar="RUN", help="check, approve, show: one run")
        parser.add_argument("--hash", default="", metavar="HASH", help="approve --run: the hash that was seen")
        parser.add_argument("--by", default="", metavar="EMAIL", help="approve: the operator who says yes")
        parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
        parser.add_argument("--json", action="store_true", help="one JSON document instead of lines")

    def handle(self, *_: object, **options: object) -> None:
        """Do what the verb says; a refusal ends with exit status 1 and its code."""
        verbs = {
            "draft": self._draft,
            "check": self._check,
            "approve": self._approve,
            "run": self._run,
            "show": self._show,
        }
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
        run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR, origin=RunOrigin.COMMAND)
        lines = [_line(payout) for payout in run.payouts] + [_skipped(one) for one in run.skipped]
        if run.run is not None and run.payouts:
            checked = run_checks.check(run_id=run.run.public_id, now=now)
            lines += [] if options["json"] else [_run_line(checked, now)]
        return lines

    def _check(self, options: dict[str, object], now: datetime) -> Lines:
        if not options["run"]:
            raise CommandError("name the run to check: --run RUN")
        return [_run_line(run_checks.check(run_id=str(options["run"]), now=now), now)]

    def _approve(self, options: dict[str, object], now: datetime) -> Lines:
        approver = User.objects.filter(email=str(options["by"]).lower()).first()
        if approver is None:
            raise CommandError("name the operator who approves: --by EMAIL")
        if options["run"]:
            return self._approve_run(options, approver, now)
        if not (options["all"] or options["payouts"]):
            raise CommandError("name what is approved: --run RUN --hash HASH, --all, or payouts by their ids")
        waiting = Payout.objects.filter(state=PayoutState.RESERVED, run__isnull=False).order_by("pk")
        wanted = list(waiting) if options["all"] else _named(options)
        if options["dry_run"]:
            return [{**_line(payout), "would": "approve"} for payout in wanted]
        if options["all"]:
            runs_waiting = sorted({payout.run.public_id for payout in wanted if payout.run})
            checked = [run_checks.check(run_id=run_id, now=now) for run_id in runs_waiting]
            return [line for run in checked for line in _approve_checked(run, run.checked_hash, approver, now)]
        actor = Actor(public_id=approver.public_id)
        return [
            _line(run_approvals.approve_one(payout_public_id=one.public_id, approver=approver, actor=actor, now=now))
            for one in wanted
        ]

    def _approve_run(self, options: dict[str, object], approver: User, now: datetime) -> Lines:
        run = run_checks.check(run_id=str(options["run"]), now=now)
        if options["dry_run"]:
            waiting = run_selectors.awaiting(run=run)
            return [_run_line(run, now), *({**_line(payout), "would": "approve"} for payout in waiting)]
        return _approve_checked(run, str(options["hash"]), approver, now)

    def _run(self, options: dict[str, object], now: datetime) -> Lines:
        if options["dry_run"]:
            waiting = Payout.objects.filter(pk__in=selectors.to_send()).order_by("pk")
            return [{**_line(payout), "would": "send"} for payout in waiting]
        done = runs.run(now=now)
        changed = {*done.reconciled, *done.sent, *done.waiting}
        return [_line(payout) for payout in Payout.objects.filter(public_id__in=changed).order_by("pk")]

    def _show(self, options: dict[str, object], now: datetime) -> Lines:
        if options["run"]:
            run = run_selectors.run(str(options["run"]))
            skips: Lines = [
                {"provider": row.skip.provider.public_id, "skipped": row.reason.code, "reason": row.reason.text}
                for row in run_selectors.skips_of(run=run)
            ]
            return [_run_line(run, now), *(_line(one) for one in run_selectors.payouts_of(run=run)), *skips]
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


def _approve_checked(run: PayoutRun, seen: str, approver: User, now: datetime) -> Lines:
    waiting = [payout.pk for payout in run_selectors.awaiting(run=run)]
    actor = Actor(public_id=approver.public_id)
    run_approvals.approve(run_id=run.public_id, seen_hash=seen, approver=approver, actor=actor, now=now)
    rows = Payout.objects.select_related("provider", "run").filter(pk__in=waiting)
    return [_line(payout) for payout in rows.order_by("pk")]


def _named(options: dict[str, object]) -> list[Payout]:
    names = options["payouts"]
    return [selectors.payout(str(name)) for name in names] if isinstance(names, list) else []


def _run_line(run: PayoutRun, now: datetime) -> dict[str, object]:
    found = [one for one in findings.from_json(run.findings) if one.status != "ok"]
    return {
        "run": run.public_id,
        "hash": run_selectors.current_hash(run=run),
        "check": run_selectors.objection(run=run, now=now) or "clean",
        "found": "; ".join(f"{one.id}: {one.detail}. {one.fix}".rstrip(". ") for one in found),
    }


def _line(payout: Payout) -> dict[str, object]:
    return {
        "payout": payout.public_id,
        "provider": payout.provider.public_id,
        "state": payout.state,
        "amount_minor": payout.amount_minor,
        "currency": payout.currency,
        "destination": payout.destination,
        "fee_minor": payout.fee_minor,
        "run": payout.run.public_id if payout.run else "",
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
