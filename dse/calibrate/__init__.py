"""Calibrate the model with measured kernels: measure, fit, export, validate. In the order in which data flows:

measure/            time the kernels of this machine, as a table of measurements
measurement         one row of a table
published/          published measurements in their own columns, converted to such rows
sanity_checks       rows that cannot be true
measurement_set     load tables with their devices
exclusions          reasons of rows that are left out, with the number of each
measured_launches   rows grouped by kernel, as arrays
fit_parameters      least squares for the parameters of a kernel with known tiles; bootstrap
fit_kernel          choice of the tiles of a kernel, then of its parameters
fit_jointly         fits with the population of similar kernels as prior
fit_discrepancy     what the parameters leave unexplained, by the sizes of a launch
choose_shapes       which few shapes to measure on a new device
intervals           leave-one-shape-out residuals and 90% intervals
predictions         times of launches under each fidelity, with plausibility checks
checkpoint          kernels that an interrupted `dse calibrate` has fitted
export              write efficiencies.yaml
attention_measurement, attention_set, attention_fit, attention_export
                    the same for fused attention: rows, launches by kernel, fits, records
modules/            sparse attention with its projections: rows, launches with the work of each part, fits
network_measurement, host_time
                    whole networks: rows, and the time of the host in an eager runtime
validate/           compare predictions with measurements
efficiency_ratios   efficiency of sparse kernels relative to dense ones
r3                  realised resource reduction: at which sparsity a device breaks even (Gale 2022)

`dse.model.efficiency` has the model that is fitted, and evaluates it for networks.
"""
