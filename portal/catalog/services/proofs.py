"""Has a template's overheads proven by a child process that bounds its own time and memory: a stranger wrote it."""

import json
import os
import subprocess
import sys
from pathlib import Path

from portal.catalog.rules.overheads import Overheads
from portal.catalog.rules.rendering import TemplateInvalid

_SECONDS = 60
_ROOT = Path(__file__).resolve().parents[3]


def prove_overheads(template: bytes) -> Overheads | None:
    """Return the proven overheads, or None where none hold. Raises TemplateInvalid, also for a template too costly."""
    try:
        answer = subprocess.run(
            [sys.executable, "-m", "portal.catalog.rules.proving"],
            input=template,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
            cwd=_ROOT,
            env={"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        raise TemplateInvalid(
            "the chat template takes too much time or memory to be examined", param="chat_template"
        ) from error
    found = json.loads(answer.stdout)
    if "error" in found:
        raise TemplateInvalid(str(found["error"]), param="chat_template")
    return Overheads(message_bytes=found["message"], request_bytes=found["request"]) if found else None
