"""`python -m poolhouse_agent.simulate --port N --model NAME`: a simulated vLLM on 127.0.0.1."""

import argparse
import os
import sys
from pathlib import Path

from aiohttp import web

from poolhouse_agent.simulate import behaviours
from poolhouse_agent.simulate.behaviours import Behaviour
from poolhouse_agent.simulate.server import VERSION, Options, Server


def main() -> None:
    """Serve until SIGTERM."""
    arguments = _parser().parse_args()
    options = Options(
        model=arguments.model,
        context_tokens=arguments.context,
        max_num_seqs=arguments.max_num_seqs,
        tokens_per_second=arguments.tokens_per_second,
        embedding_dimensions=arguments.embedding_dimensions,
        api_key=os.environ.get("VLLM_API_KEY", ""),
        version=arguments.version,
    )
    fixed = behaviours.find(arguments.behaviour)

    def current() -> Behaviour:
        return _from_file(arguments.behaviour_file) or fixed

    application = Server(options, behaviour=current).application()
    print(f"simulating {options.model} on http://127.0.0.1:{arguments.port}", file=sys.stderr)  # noqa: T201  a command
    web.run_app(
        application, host="127.0.0.1", port=arguments.port, print=None, access_log=None, handler_cancellation=True
    )


def _from_file(path: Path | None) -> Behaviour | None:
    if path is None or not path.exists():
        return None
    try:
        return behaviours.find(path.read_text(encoding="utf-8").strip())
    except ValueError:
        return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="poolhouse_agent.simulate", description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--model", required=True, help="the name it serves the demo model under")
    parser.add_argument("--behaviour", default="honest", help=f"one of {', '.join(behaviours.names())}")
    parser.add_argument(
        "--behaviour-file", type=Path, help="names the behaviour while it exists; read at every request"
    )
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--max-num-seqs", type=int, default=16)
    parser.add_argument("--tokens-per-second", type=int, default=200)
    parser.add_argument("--embedding-dimensions", type=int, default=0, help="serve embeddings of this length instead")
    parser.add_argument("--version", default=VERSION, help="the version of vLLM that it says it is")
    return parser


if __name__ == "__main__":
    main()
