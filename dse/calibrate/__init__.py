"""How far the model is from silicon: measure kernels, fit their efficiencies, hold predictions against measurements.

measure/                  times of kernels on the machine at hand
published -> measurement  measured times as rows of one form; plausible: what no row may say; measured_set: files of them
launches                  rows grouped by kernel, as arrays
kernel, parameters, tiles seconds of a launch: W / (P * E), with E a function of the work, tiles, waves and imbalance
fit                       parameters of each kernel from its measurements
efficiencies, written     the file that holds them, as it is read and as it is made
predict, alarms           what a fitted kernel would take; what no prediction may be
choice, network           which kernel stands for an execution; the fidelity `calibrated` of whole networks
ladder                    each fidelity of one product
validate/                 each fidelity against what was measured
r3, ratios                where sparsity breaks even (Gale 2022); what measured kernels reach of the speed of light
"""
