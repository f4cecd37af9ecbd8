"""Compare predictions of each fidelity with measurements that the models have not seen, as `dse validate` does.

comparison          one measured time or speedup with its predictions; error statistics
left_out_shapes     leave-one-shape-out: each shape by models fitted without it
left_out_devices    leave-one-device-out: each device by models fitted on others
attention           fused attention: each half of the launches of a kernel by a fit to the other half, each device by others
modules             modules of sparse attention: each fifth of the shapes of a kernel by a fit to the others, each device by another
experts             mixtures of experts, by the kernels of plain products
crossover           lengths from which on sparse attention is faster than dense attention, measured and predicted
falling_times       measured times that fall as the work grows, which no such model predicts
measured_power      mean power of kernels near the power limit, by energies per operation and byte
predicted_layers    latencies of the layers of a network under each fidelity
whole_networks      networks end to end, to which nothing is fitted
report              the tables
"""
