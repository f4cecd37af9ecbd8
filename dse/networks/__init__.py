"""The layers of networks: formulas for published architectures, and layers as rows and as columns.

layers         a layer as a row of layers.csv, and all layers of a network as arrays
graph          which layer reads which tensor, and how long each tensor is needed
architecture   the base class of architectures: a published configuration and the layers that follow from it; inputs of networks
layer_list     builds the list of layers: methods that append linear layers, convolutions, norms and attentions
config_keys    descriptions of the keys of published configurations
registry       all architectures, by the `model_type` of their configuration
experts        mixtures of experts: router, routed and shared experts
decoder_attention  the attention of a decoder, with the layers that choose keys for top-k patterns
latent_attention  attention whose cache keeps one latent vector a token, with expanded or absorbed matrices
encoder_decoder   inputs and attention of networks with an encoder and a decoder
multimodal     language models with an image tower; layers of a network within another one

One module per architecture: bert, clip (also SigLIP), convnext, deepseek (V2 to V3.2), efficientnet, gemma (2 and 3), gemma3 (with images),
gpt2, gpt_oss, llama (also Mistral and Qwen), llama4, mixer, mixtral (also Qwen3-MoE), mobilenet, opt, phi3 (also Phi-4), resnet, swin, t5,
vit (also DeiT), whisper.
"""
