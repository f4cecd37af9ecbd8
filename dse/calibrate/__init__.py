"""Calibrate the model with measured kernels: measure, fit, validate. In the order in which data flows:

measure/            time the kernels of this machine, as a table of measurements
measured/           the tables that ship
device_names        devices of the catalogue by the names that drivers and published tables give to them
published/          published tables in their own columns
tables/             rows of tables, their checks, and launches as arrays
fit/                fit kernels of matrix products; write efficiencies.yaml
attention/          fused attention: rows, launches, fits, records
modules/            sparse attention with its projections: rows, launches with the work of each part, fits
predictions         times of launches under each fidelity, with plausibility checks
validate/           compare predictions with measurements
efficiency_ratios   efficiency of sparse kernels relative to dense ones
r3                  realised resource reduction: at which sparsity a device breaks even (Gale 2022)

`dse.model.efficiency` has the model that is fitted, and evaluates it for networks.
"""
