"""Area [m^2], power [W] and energy [J] of a design, from the numbers of its description.

    area     sum over drivers of coefficient * driver: fixed share, multipliers, SRAM; and memory interfaces
    power    leakage density * area + energy per operation * sustained rate + energy per byte * bandwidth
    energy   energy per operation * operations + energy per byte * bytes + static power * time

A power limit P bounds the time from below: dynamic energy / (P - static power).

A driver is a product of numbers of the description (a peak, a capacity, a bandwidth) and of a factor that scales its circuits with the
process. Drivers are floats or arrays of NumPy or JAX: a sweep evaluates all values of its axes at once, and JAX differentiates.

design                numbers of a description, some of them replaced by arrays
coefficients          published and assumed ones (coefficients.yaml) and fitted ones (fitted.yaml), with their scaling to the process
clock                 clock under load, and the supply voltage that it needs
action_energy         energy of an operation and of a byte: as a description states it, else by the model
area, power, energy   the three equations; area also of sparse patterns and memory interfaces, energy also of layers, where it decides
                      between executions
manufacturing         cost of good dies and interposers (manufacturing.yaml)
fit, validate         the fit to published dies (devices.csv), its error when each die is left out
"""
