"""Fused attention: measured launches, fits, and records of fitted kernels.

measurement      one row of a table, and the published tables that are converted to such rows
attention_set    load tables, and group their rows by kernel as arrays of launches
fit              choice of the tiling of a kernel, then of its parameters
export           records of fitted kernels, and predictions by fits to other launches
"""
