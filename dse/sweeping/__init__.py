"""Sweep over accelerators, hardware axes, batch sizes, dtypes and pruned networks: results as labelled arrays.

The package is called `sweeping` because `dse.sweep` is a function. Data flows through its modules in this order:

* what to evaluate: `descriptions` (accelerators and workloads), `variants` (pruned networks), `axis` and `linked_axes` are combined into a
  `plan` by `plan_builder`, which also verifies it;
* `compile`: the plan as jobs (`job`) with evaluators (`kernel_shapes`, `job_evaluator`) that share compiled functions;
* `chunk`: regions of the results that are evaluated independently;
* `run`: evaluates the jobs into `results`, with `cost`, `serving` and `provenance`, and `model_warnings` about them;
* where results go: `store` (netCDF), `netcdf_stream` (large files), `table_file` (.csv, .parquet) and `zarr_store`, `reduce/` (a front, the
  best designs or a summary in constant memory), and `distributed/` (several processes and machines);
* `sweep`: all of this, as the function `dse.sweep`;
* what follows from results: `select_values`, `objectives`, `pareto` with `pareto_front`, and `iso_speedup`; with uncertain accuracies,
  `accuracy_losses` (also in samples) and `front_probability` (how often a point is on the front).
"""
