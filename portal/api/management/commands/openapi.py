"""`manage.py openapi`: the management API's schema as a file, so that a change of it is seen in review."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from drf_spectacular.generators import SchemaGenerator

NAME = "management-v1.json"


class Command(BaseCommand):
    """Writes docs/openapi/management-v1.json, or with --check says whether the code has drifted from it."""

    help = "Write the OpenAPI schema. Example: manage.py openapi --check"
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        """Add --check and --folder."""
        parser.add_argument("--check", action="store_true", help="write nothing; exit 1 where the file differs")
        parser.add_argument("--folder", type=Path, default=settings.BASE_DIR / "docs" / "openapi")

    def handle(self, *_: Any, **options: Any) -> None:
        """Write or compare."""
        file: Path = options["folder"] / NAME
        text = _schema_text()
        if not options["check"]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            self.stdout.write(f"wrote {file}")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            raise CommandError(f"{file} is not what the code says: run `make openapi` and review the difference")
        else:
            self.stdout.write(f"{file} is up to date")


def _schema_text() -> str:
    generator: Any = SchemaGenerator  # drf-spectacular has no types
    schema = generator().get_schema(request=None, public=True)
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n"
