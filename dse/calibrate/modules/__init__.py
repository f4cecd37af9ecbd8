"""Measured modules of sparse attention: projections, indexer, selection and attention of one layer, measured together.

shapes              published sizes of the networks whose modules were measured
measurement         one row of a table, and the published tables that are converted to such rows
launches            rows of one kernel as arrays, with the exact work of each part
module_set          load tables, and group their rows by kernel
parameters, time    the parameters of a kernel, and the time of a launch as a function of them
fit                 least squares for the parameters
"""
