"""`python -m dse` runs the command `dse`."""

import runpy

runpy.run_module("dse.cli", run_name="__main__", alter_sys=True)
