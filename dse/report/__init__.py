"""Text reports as tables or JSON: the catalogue, sparsity at iso-accuracy, patterns, and the plan of a sweep."""
