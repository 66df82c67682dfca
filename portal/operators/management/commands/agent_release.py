"""`manage.py agent_release`: build, sign, publish and roll out releases of the agent.

On a machine that keeps the key and is not the portal:
    manage.py agent_release key ~/poolhouse-release.key        (once; prints AGENT_RELEASE_PUBLIC_KEY)
    manage.py agent_release build release/
    manage.py agent_release sign release/ --key ~/poolhouse-release.key
On the portal, with the folder copied over:
    manage.py agent_release publish release/ --percent 5 --ring house
    manage.py agent_release roll-out 1.2.0 --percent 100 --ring all
"""

from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from portal.core.errors import DomainError
from portal.nodes.models import AgentRelease, ReleaseRing
from portal.nodes.selectors import releases as selectors
from portal.nodes.services import releases
from portal.operators.agent_releases import building, signing

_WHOLE = 100


class Command(BaseCommand):
    """See the module."""

    help = __doc__ or ""
    requires_system_checks: list[str] = []

    def create_parser(self, prog_name: str, subcommand: str, **options: Any) -> Any:
        """Keep the examples' lines."""
        return super().create_parser(prog_name, subcommand, formatter_class=RawDescriptionHelpFormatter, **options)

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the actions."""
        actions = parser.add_subparsers(dest="action", required=True)
        actions.add_parser("key", help="make the offline key").add_argument("file", type=Path)
        actions.add_parser("build", help="build a release from agent/").add_argument("folder", type=Path)
        sign = actions.add_parser("sign", help="sign a release")
        sign.add_argument("folder", type=Path)
        sign.add_argument("--key", type=Path, required=True)
        publish = actions.add_parser(
            "publish", help="make a release available; without a folder: build it here, unsigned"
        )
        publish.add_argument("folder", type=Path, nargs="?")
        roll_out = actions.add_parser("roll-out", help="offer a release to more nodes, or to fewer")
        roll_out.add_argument("version")
        for one in (publish, roll_out):
            one.add_argument("--percent", type=int, default=_WHOLE)
            one.add_argument("--ring", choices=ReleaseRing.values, default=ReleaseRing.ALL)
        for name, text in (("halt", "offer it to nobody for now"), ("withdraw", "offer it to nobody ever again")):
            actions.add_parser(name, help=text).add_argument("version")
        actions.add_parser("list", help="show the releases and how far they have come")

    def handle(self, *_: Any, **options: Any) -> None:
        """Do it; a refusal is one line."""
        try:
            self._act(options)
        except (DomainError, OSError) as error:
            raise CommandError(error.sentences if isinstance(error, DomainError) else str(error)) from error

    def _act(self, options: dict[str, Any]) -> None:
        match options["action"]:
            case "key":
                self._say(f"AGENT_RELEASE_PUBLIC_KEY={signing.make_key(options['file'])}")
            case "build":
                self._build(options["folder"])
            case "sign":
                signing.sign(options["folder"], signing.load_key(options["key"]))
                self._say(f"signed {options['folder']}")
            case "publish":
                self._publish(options)
            case "list":
                self._list()
            case _:
                self._decide(options)

    def _build(self, folder: Path) -> None:
        built = _built()
        signing.write(folder, built)
        self._say(f"built {built.wheel_name} in {folder}; next: agent_release sign {folder} --key FILE")

    def _publish(self, options: dict[str, Any]) -> None:
        if options["folder"] is not None:
            row = _published(signing.read(options["folder"]), options)
        else:
            with TemporaryDirectory() as folder:
                signing.write(Path(folder), _built())
                row = _published(signing.read(Path(folder)), options)
        self._say(self._line(row))

    def _decide(self, options: dict[str, Any]) -> None:
        version, now = options["version"], clock.now()
        if options["action"] == "roll-out":
            ring, percent = ReleaseRing(options["ring"]), options["percent"]
            row = releases.roll_out(version=version, ring=ring, percent=percent, actor=SYSTEM_ACTOR, now=now)
        else:
            withdraws = options["action"] == "withdraw"
            row = releases.stop(version=version, withdraws=withdraws, actor=SYSTEM_ACTOR, now=now)
        self._say(self._line(row))

    def _list(self) -> None:
        spread = selectors.spread()
        for row in selectors.releases():
            come = spread.get(row.version)
            reached = f", {come.running} run it, {come.failed} of {come.tried} updates failed" if come else ""
            self._say(self._line(row) + reached)

    @staticmethod
    def _line(row: AgentRelease) -> str:
        signed = "signed" if row.signature else "unsigned: for installing only"
        return f"{row.version} {row.state}, {row.percent} % of {row.get_ring_display().lower()}, {signed}"

    def _say(self, text: str) -> None:
        self.stdout.write(text)


def _built() -> building.Built:
    return building.build(settings.BASE_DIR / "agent", license_file=settings.BASE_DIR / "LICENSE")


def _published(files: releases.Files, options: dict[str, Any]) -> AgentRelease:
    return releases.publish(
        files=files,
        ring=ReleaseRing(options["ring"]),
        percent=options["percent"],
        actor=SYSTEM_ACTOR,
        now=clock.now(),
    )
