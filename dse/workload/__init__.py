"""A workload: the layers of one network, its pruned variants and their accuracies, kept in a folder.

    workload.yaml           name, task, metric and its direction, sources; the architecture, if formulas make the layers
    layers.csv              the layers otherwise (see `dse.networks.layers`)
    variants/*.csv          method, pattern, sparsity (nominal), layer, nnz, row and column statistics, columns_touched (any nonzero)
    accuracy.csv            method, pattern, sparsity (nominal), value, dense_value, source, kind, metric, densities,
                            combined_with
    statistics/stored.csv   what patterns store of a traced mask: method, pattern, sparsity, layer, stored_as, elements

schema     what may stand in these files
rows       CSV, with errors that name a line
states     traced layers, accuracies and counts joined into variants
tables     reads all of it
"""

from dse.workload.variant import Variant, Workload

__all__ = ["Variant", "Workload"]
