"""Asking many questions of the model: sweeps over designs, networks and batches, as labelled data."""
