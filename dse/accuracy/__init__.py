"""Accuracies of sparsity patterns that nobody trained, estimated from the saliency that their best masks keep.

saliency             saliency of each weight of a layer, and of a workload's layers from a file of weights
weight_distribution  weights assumed where none are at hand
retained             saliency that the best masks of patterns keep, and the sparsity of unstructured pruning that keeps as much
reference_curve      the measured curve of unstructured pruning
estimation_models    estimated accuracies, read from the curve, and perplexities: unstructured pruning times a penalty
interval             90% intervals whose width is measured
estimate             estimates of all requests
accuracy_file        writes them as rows of accuracy.csv

published_points     published accuracies of structured patterns
validate             estimates and alternatives against published accuracies, each network left out
rank_agreement       whether estimates order patterns as measured accuracies do
validation_report    the reports of `dse validate accuracy`
"""
