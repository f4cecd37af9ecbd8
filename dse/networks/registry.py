"""All architectures whose layers can be computed; `model_type` selects one."""

from typing import Annotated, get_args

from pydantic import Field

from dse.networks.bert import BERT
from dse.networks.clip import CLIP, CLIPText, CLIPVision, SigLIP, SigLIPText, SigLIPVision
from dse.networks.convnext import ConvNeXt
from dse.networks.deepseek import DeepSeekV2, DeepSeekV3, DeepSeekV32
from dse.networks.efficientnet import EfficientNet
from dse.networks.gemma import Gemma2, Gemma3, Gemma3Text
from dse.networks.gpt2 import GPT2
from dse.networks.gpt_oss import GPTOSS
from dse.networks.llama import Llama
from dse.networks.llama4 import Llama4, Llama4Text, Llama4Vision
from dse.networks.mixer import Mixer
from dse.networks.mixtral import Mixtral, Qwen3MoE
from dse.networks.mobilenet import MobileNetV1
from dse.networks.opt import OPT
from dse.networks.phi3 import Phi3
from dse.networks.resnet import ResNet
from dse.networks.swin import Swin
from dse.networks.t5 import T5
from dse.networks.vit import ViT
from dse.networks.whisper import Whisper

AnyArchitecture = Annotated[
    BERT | CLIP | CLIPText | CLIPVision | ConvNeXt | DeepSeekV2 | DeepSeekV3 | DeepSeekV32 | EfficientNet | Gemma2 | Gemma3 |
    Gemma3Text | GPT2 | GPTOSS | Llama | Llama4 | Llama4Text | Llama4Vision | Mixtral | Mixer | MobileNetV1 | OPT | Phi3 | Qwen3MoE |
    ResNet | SigLIP | SigLIPText | SigLIPVision | Swin | T5 | ViT | Whisper,
    Field(discriminator="model_type"),
]  # fmt: skip

ARCHITECTURES = get_args(get_args(AnyArchitecture)[0])
