"""Sweep over accelerators, hardware axes, batch sizes, dtypes and pruned networks: results as labelled arrays.

The package is called `sweeping` because `dse.sweep` is a function.
"""
