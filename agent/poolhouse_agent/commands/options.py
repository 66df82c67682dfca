"""Options that several words of the command line take."""

import argparse


def add_json(parser: argparse.ArgumentParser, *, schema: str = "") -> None:
    """Add `--json`, in the shape of that file of `docs/schemas` where one is published."""
    shape = f", in the shape of docs/schemas/{schema}" if schema else ""
    parser.add_argument("--json", action="store_true", help=f"print JSON{shape}")
