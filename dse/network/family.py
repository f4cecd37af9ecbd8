"""Every architecture that layers can be made of, told apart by `model_type`."""

from typing import Annotated

from pydantic import Field

from dse.network.bert import BERT
from dse.network.convnext import ConvNeXt
from dse.network.efficientnet import EfficientNet
from dse.network.gpt2 import GPT2
from dse.network.llama import Llama, Mixtral
from dse.network.mixer import Mixer
from dse.network.mobilenet import MobileNetV1
from dse.network.opt import OPT
from dse.network.resnet import ResNet
from dse.network.swin import Swin
from dse.network.vit import ViT

FAMILIES = (BERT, ConvNeXt, EfficientNet, GPT2, Llama, Mixtral, Mixer, MobileNetV1, OPT, ResNet, Swin, ViT)

Network = Annotated[
    BERT | ConvNeXt | EfficientNet | GPT2 | Llama | Mixtral | Mixer | MobileNetV1 | OPT | ResNet | Swin | ViT,
    Field(discriminator="model_type"),
]
