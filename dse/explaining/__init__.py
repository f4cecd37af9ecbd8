"""Why two designs, networks or runs differ, and why a sparse network is not as fast as its pattern allows.

The modules in the order in which data flows:

measured_row                a row of a table of measured kernels as settings
settings, side              what is compared: as a user states it, and with its accelerator and network loaded
factors, fidelity_parts     in what two sides differ, and mixtures of them
relevance                   which factors the model reads
repeated_layers             which layers repeat others
chosen_layers, mixtures     latencies, energies and costs of one side and of mixtures, by the one evaluator
shapley                     parts of factors that do not depend on an order
causes, compare             from the ideal to the predicted speedup of one side; from one side to another
breakdown, reach            layer groups and resources; what would have to change
parts, text                 what an explanation consists of and how it is written
explanation, explain        the result, and `dse.explain`
"""
