"""Options that several words of the command line take."""

import argparse


def add_json(parser: argparse.ArgumentParser, *, schema: str = "", default: bool | str = False) -> None:
    """Add `--json`, in the shape of that file of `docs/schemas` where one is published.

    A verb beneath a command that has the option too takes `argparse.SUPPRESS` for its default.
    """
    shape = f", in the shape of docs/schemas/{schema}" if schema else ""
    parser.add_argument("--json", action="store_true", default=default, help=f"print JSON{shape}")
