"""Train small networks, prune them under sparsity patterns, and measure the accuracy that each pattern leaves.

dataset          images and labels: the digits of scikit-learn, or arrays in a file of the user
networks         a small ResNet, MLP-Mixer and vision transformer
request          what a study is to measure, with all its errors; its profiles `study` and `quick`
schedule         which images each training step reads, at which learning rate, and rewinding to the last epochs
pruning_path     the steps that lead from the dense network to a pattern and sparsity
masks            the best masks of a step, with exactly the sparsity that was requested
train            stacks of networks that are trained together, one for each seed and step; pruned weights stay zero
study            the grid of networks, patterns, sparsities and seeds
checkpoint       finished steps of an interrupted study
export           workload folders, masks and dense weights; means over seeds, with intervals

The protocol is that of the Sparsity Roofline (Shinn et al. 2023, arXiv 2310.00496) with learning-rate rewinding (Renda et al. 2020,
arXiv 2003.02389): train, prune, train again with the learning rates of the last epochs, and so on with half the weights each time.
JAX, Equinox and Optax are imported when a study runs.
"""
