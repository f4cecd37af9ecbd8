"""Weights that quantisers pack: their real values, so that zeros are counted exactly.

module_tensors   the tensors of one module, by their own names
bitmask          compressed-tensors: sparse-bitmask and sparse-24-bitmask
integers         compressed-tensors: pack-quantized and int-quantized; GPTQ and AWQ
floats           NVFP4 and MXFP4 of compressed-tensors, NVFP4 of ModelOpt
unpack           choose the reader of each module of a file
"""
