"""Times of kernels on the machine at hand, as `dse calibrate` reads them.

command      which kernels at which shapes; rows written as they come, and gone on with
libraries    the kernels that are installed: how each stores A and multiplies
timing       how long a call takes, its operands out of the caches
machine      what the machine is called, and its description
"""
