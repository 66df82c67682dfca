"""The command line of the programs."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

try:
    import torch
except ImportError as missing:
    sys.stdout.write(json.dumps({"wrong": "engine_python_missing", "detail": f"{missing}"}) + "\n")
    sys.exit(0)

from . import memory, peers, products, start
from .outcome import Progress, Unsupported, Wrong, progress, say

Program = Callable[[Any, dict[str, Any], Progress], dict[str, Any]]
PROGRAMS: Mapping[str, Program] = {
    "start": start.start,
    "fill": memory.fill,
    "bandwidth": memory.bandwidth,
    "link": memory.link,
    "product": products.product,
    "repeat": products.repeat,
    "soak": products.soak,
    "copies": peers.copies,
    "all_reduce": peers.all_reduce,
}
_DETAIL = 400


def main() -> int:
    """Run one program; what it found, and why it found nothing, goes to stdout."""
    parser = argparse.ArgumentParser(prog="on_torch")
    parser.add_argument("program", choices=sorted(PROGRAMS))
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--options", type=json.loads, default={})
    given = parser.parse_args()
    torch.set_grad_enabled(False)
    try:
        say(result=PROGRAMS[given.program](torch.device(given.device), given.options, progress))
    except Unsupported as error:
        say(unsupported=str(error)[:_DETAIL])
    except Wrong as error:
        say(wrong=error.code, detail=error.detail[:_DETAIL], evidence=error.evidence)
    except RuntimeError as error:  # what CUDA and NCCL raise, whatever went wrong
        say(failed=f"{type(error).__name__}: {error}"[:_DETAIL])
    return 0
