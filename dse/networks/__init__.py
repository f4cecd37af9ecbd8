"""Networks as layers, and the architectures that make them by formula."""
