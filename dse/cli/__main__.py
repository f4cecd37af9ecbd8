"""`python -m dse.cli` runs the command `dse`."""

import sys

from dse.cli.entry import main

sys.exit(main())
