"""A workload: the layers of one network, its pruned variants and their accuracies, stored in a folder.

    workload.yaml           name, task, metric and its direction, sources; the architecture, if the layers are computed by formula
    layers.csv              the layers otherwise (see `dse.networks.layers`)
    variants/*.csv          method, pattern, sparsity (nominal), layer, nnz, row and column statistics, columns_touched (any nonzero)
    accuracy.csv            method, pattern, sparsity (nominal), value, dense_value, low, high, source, kind, metric, densities,
                            combined_with
    statistics/stored.csv   elements that patterns store of a traced mask: method, pattern, sparsity, layer, stored_as, elements
    statistics/activation_tokens.csv  inputs that groups of tokens need: method, pattern, sparsity, layer, tokens, groups,
                            union_density, imbalance

schema            keys and columns of these files
variant           a network pruned to some sparsity
workload          a network with its variants
join_tables       rows of the tables joined into variants
tables            reads a folder
accuracy          accuracy curves over sparsity
accuracy_drop     a stated accuracy drop, in points or in %
accuracy_samples  samples of accuracies from their 90% intervals
pattern_shares    how often each pattern is the best over these samples, in words
"""

from dse.workload.variant import Variant
from dse.workload.workload import Workload

__all__ = ["Variant", "Workload"]
