"""Proves a template's overheads in a process of its own: the template on stdin, the answer as JSON on stdout."""

import json
import resource
import sys

from portal.catalog.rules.overheads import prove
from portal.catalog.rules.rendering import TemplateInvalid

_CPU_SECONDS = 45
_MEMORY_BYTES = 1024 * 1024 * 1024


def main() -> int:
    """Write `{"message": n, "request": n}`, `{}` where nothing is proven, or `{"error": …}`."""
    resource.setrlimit(resource.RLIMIT_CPU, (_CPU_SECONDS, _CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        found = prove(sys.stdin.buffer.read().decode())
    except (TemplateInvalid, UnicodeDecodeError) as error:
        sys.stdout.write(json.dumps({"error": str(error)}))
        return 0
    answer = {} if found is None else {"message": found.message_bytes, "request": found.request_bytes}
    sys.stdout.write(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
