"""Text reports as tables or JSON: the catalogue, sparsity at iso-accuracy, and patterns."""
