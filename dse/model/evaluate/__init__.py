"""The equation evaluated on a grid of designs: latency = sum over layers, min over executions, max over resources of W / (P * E).

roofline          in JAX, layer by layer
grid              designs as rows and columns; host: on all devices of this machine, as many at once as fit its cache
structure         which layers depend on which axes, and what never decides
rates, lines      many layers that depend on two rates alone: sorted and searched
"""
