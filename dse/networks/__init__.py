"""The layers of networks: formulas for published architectures, and layers as rows and as columns.

layers         a layer as a row of layers.csv, and all layers of a network as arrays
graph          which layer reads which tensor, and how long each tensor is needed
architecture   the base class of architectures: a published configuration and the layers that follow from it
config_keys    descriptions of the keys of published configurations
registry       all architectures, by the `model_type` of their configuration

One module per architecture: bert, convnext, efficientnet, gpt2, llama (also Mistral, Mixtral and Qwen), mixer, mobilenet, opt, resnet,
swin, vit (also DeiT).
"""
