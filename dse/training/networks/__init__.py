"""Networks of some ten thousand weights, which a processor core trains in seconds.

weight_matrix   a layer as the product C[m, n] = A[m, k] B[k, n], whose matrix A patterns prune
patches         what mixer and transformer share: patches as tokens, the classifier of their mean
resnet          convolutions with residual connections
mixer           an MLP-Mixer: linear layers over tokens and over channels
vit             a vision transformer

Prunable are all layers with weights but the first (the convolution or patch embedding that reads the image) and the last (the classifier),
as is usual: they are small, and their sizes are those of the data. Widths are multiples of 32, so that blocks of 16 x 16 and groups of 32
divide every prunable matrix.
"""

from dse.training.networks.mixer import SmallMixer
from dse.training.networks.resnet import SmallResNet
from dse.training.networks.vit import SmallViT
from dse.training.networks.weight_matrix import NetworkConstructor

NETWORKS: dict[str, NetworkConstructor] = {"resnet": SmallResNet, "mixer": SmallMixer, "vit": SmallViT}
