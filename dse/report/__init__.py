"""Text reports as tables or JSON.

catalog_tables   the accelerators, workloads, sweeps and variants of the catalogue, and sparsity at iso-accuracy
pattern          the storage of a sparsity pattern in each format, and the devices that run it
"""
