"""The networks by name."""

from dse.training.networks.mixer import SmallMixer
from dse.training.networks.resnet import SmallResNet
from dse.training.networks.vit import SmallViT
from dse.training.networks.weight_matrix import SmallNetwork

NETWORKS: dict[str, type[SmallNetwork]] = {"resnet": SmallResNet, "mixer": SmallMixer, "vit": SmallViT}
