"""Text reports as tables or JSON.

catalog_tables    the accelerators, workloads, sweeps and variants of the catalogue, and sparsity at iso-accuracy
accelerator_check warnings about an accelerator whose numbers are unlikely; numbers that follow from others, area and power
pattern           the storage of a sparsity pattern in each format, and the devices that run it
show_results      tables of a dataset of results, with result_kind (what a dataset holds), best_designs (which designs rank first)
                  (networks that fit no memory) and result_table (a table in units that people use, as text, CSV, Markdown or JSON)
"""
