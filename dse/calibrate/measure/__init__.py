"""Time the kernels of the installed libraries on this machine, as `dse measure` does.

libraries    kernels of the installed libraries: how each stores A and multiplies
jobs         which kernels are timed at which shapes
timing       time of a call, with operands in no cache
run          run the jobs; each row is written at once, so that an interrupted run resumes
table        measurements.csv
machine      name and description of the machine
"""
