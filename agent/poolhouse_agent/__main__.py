"""`python -m poolhouse_agent` is the same as `poolhouse-agent`."""

import sys

from poolhouse_agent.cli import main

sys.exit(main())
