"""From files to workloads: each reader turns one format into layers, variants and accuracies."""
