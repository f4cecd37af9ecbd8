"""How far the model is from silicon: measure kernels, fit their efficiencies, hold predictions against measurements.

measurement, published    measured times as rows of one form
launches                  rows grouped by kernel, as arrays
kernel, parameters, tiles seconds of a launch: W / (P * E), with E a function of the work, tiles, waves and imbalance
fit                       parameters of each kernel from its measurements
efficiencies, written     the file that holds them, as it is read and as it is made
predict, alarms           what a fitted kernel would take; what no prediction may be
choice, network           which kernel stands for an execution; the fidelity `calibrated` of whole networks
ladder, validate          each fidelity against what was measured
carried, end_to_end       the same on devices left out, and of whole networks
measure                   the same rows from the machine at hand (machine), by the kernels of its libraries, timed cold (timing)
r3                        where sparsity breaks even (Gale 2022)
"""
