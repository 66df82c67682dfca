"""Which release of the software this is; agents within one minor version of it are understood."""

VERSION = "0.1.0"
