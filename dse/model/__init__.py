"""The model: time = W / (P * E) per resource, the slowest resource per layer, the sum over layers per network.

work, traffic    W   what a layer asks for: FLOPs, bytes
peak             P   which unit may execute it, at what rate
efficiency       E   which share of the peak is reached
equation             puts the factors of one network on one accelerator together
evaluate/            max over resources, min over executions, sum over layers: in JAX, over many designs
"""
