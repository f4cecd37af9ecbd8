"""The layers of networks: formulas for published architectures, and layers as rows and as columns."""
