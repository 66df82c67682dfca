"""`manage.py create_operator`: make a person an operator of the pool."""

import getpass
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from portal.accounts.services.operators import create_operator, revoke_operator
from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from portal.core.errors import DomainError

_HELP = """Make a person an operator, or take it back.

Example:
  manage.py create_operator --email ana@pool.example --name Ana           asks for the password
  printf %s "$PASSWORD" | manage.py create_operator --email ana@pool.example   reads it from standard input
  manage.py create_operator --email ana@pool.example --revoke
"""


class Command(BaseCommand):
    """Creates an operator; the password never stands in the arguments."""

    help = _HELP

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Keep the example's line breaks."""
        return super().create_parser(prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the options."""
        parser.add_argument("--email", required=True)
        parser.add_argument("--name", default="")
        parser.add_argument("--revoke", action="store_true", help="take the operator's rights from this person")

    def handle(self, *args: Any, **options: Any) -> None:
        """Create or revoke."""
        del args
        try:
            self.stdout.write(self._done(options))
        except DomainError as error:
            raise CommandError(f"{error.code}: {error.message}") from error

    def _done(self, options: dict[str, Any]) -> str:
        email, now = options["email"], clock.now()
        if options["revoke"]:
            revoke_operator(email=email, actor=SYSTEM_ACTOR, now=now)
            return f"{email} is no operator any more"
        user = create_operator(email=email, password=_password(), name=options["name"], actor=SYSTEM_ACTOR, now=now)
        return f"{user.email} is an operator ({user.public_id})"


def _password() -> str:
    if not sys.stdin.isatty():
        return sys.stdin.read().strip()
    first = getpass.getpass("Password: ")
    if first != getpass.getpass("Again: "):
        raise CommandError("the two passwords differ")
    return first
