"""Area [m^2], power [W] and energy [J] of a design, from the numbers of its description.

    area    sum over drivers of coefficient * driver       fixed share, multipliers, SRAM, memory interface
    power   leakage density * area + energy per operation * peak + energy per byte * bandwidth
    energy  energy per operation * operations + energy per byte * bytes + leakage * time

A driver is a product of numbers of the description (a peak, a capacity, a bandwidth) and of the factor by which its
circuits shrink with the process. Drivers take floats or arrays, numpy's or JAX's, so a sweep evaluates all values of its
axes at once and JAX differentiates.

`coefficients.yaml` holds what was published or is assumed, `fitted.yaml` what `fit.py` makes of the dies in `devices.csv`;
`validate.py` predicts each die from the others. No coefficient stands in the code.
"""
