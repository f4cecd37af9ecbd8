"""All architectures whose layers can be computed; `model_type` selects one."""

from typing import Annotated

from pydantic import Field

from dse.networks.bert import BERT
from dse.networks.convnext import ConvNeXt
from dse.networks.efficientnet import EfficientNet
from dse.networks.gpt2 import GPT2
from dse.networks.llama import Llama, Mixtral
from dse.networks.mixer import Mixer
from dse.networks.mobilenet import MobileNetV1
from dse.networks.opt import OPT
from dse.networks.resnet import ResNet
from dse.networks.swin import Swin
from dse.networks.vit import ViT

ARCHITECTURES = (BERT, ConvNeXt, EfficientNet, GPT2, Llama, Mixtral, Mixer, MobileNetV1, OPT, ResNet, Swin, ViT)

AnyArchitecture = Annotated[
    BERT | ConvNeXt | EfficientNet | GPT2 | Llama | Mixtral | Mixer | MobileNetV1 | OPT | ResNet | Swin | ViT,
    Field(discriminator="model_type"),
]
