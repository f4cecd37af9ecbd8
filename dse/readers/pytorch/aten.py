"""PyTorch's operators by what becomes of them: layers, free operators, skipped ones. In-place variants (`relu_`) are not listed."""

# Matrix products, and the names of their two factors, either of which may be the weights.
PRODUCTS = {
    "mm": ("self", "mat2"), "addmm": ("mat1", "mat2"), "bmm": ("self", "mat2"), "baddbmm": ("batch1", "batch2"),
    "matmul": ("self", "other"), "mv": ("self", "vec"), "dot": ("self", "tensor"), "_int_mm": ("self", "mat2"),
    "_scaled_mm": ("self", "mat2"), "_addmm_activation": ("mat1", "mat2"),
}  # fmt: skip

CONVOLUTIONS = {"conv1d", "conv2d", "conv3d", "convolution", "_convolution"}
TRANSPOSED_CONVOLUTIONS = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}

ATTENTIONS = {
    "scaled_dot_product_attention", "_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
    "_scaled_dot_product_fused_attention_overrideable",
}  # fmt: skip

RECURRENT = {"lstm", "gru", "rnn_tanh", "rnn_relu", "lstm_cell", "gru_cell", "rnn_tanh_cell", "rnn_relu_cell"}

# They multiply, but there is no formula for their multiply-adds here.
UNSUPPORTED = {
    "addbmm", "addmv", "addr", "bilinear", "_trilinear", "cdist", "_cdist_forward", "chain_matmul", "conv_tbc", "inner", "kron",
    "linalg_multi_dot", "outer", "tensordot", "vdot", "_native_multi_head_attention", "_transformer_encoder_layer_fwd", "mkldnn_linear",
    "_weight_int4pack_mm", "_weight_int8pack_mm", "_grouped_mm", "_scaled_grouped_mm", "_sparse_semi_structured_linear",
}  # fmt: skip

SOFTMAXES = {"softmax", "_softmax", "_safe_softmax", "log_softmax", "_log_softmax"}
NORMS = {"layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "instance_norm", "rms_norm", "_fused_rms_norm"}

LOOKUPS = {"embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only"}

# Size arithmetic and assertions: no kernel of the network.
BOOKKEEPING = {
    "sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "sym_is_contiguous", "sym_constrain_range", "sym_constrain_range_for_size",
    "_assert_async", "_assert_scalar", "_assert_tensor_metadata", "_functional_assert_async", "_functional_assert_scalar",
    "_local_scalar_dense", "item", "_print",
}  # fmt: skip

# Their output is the input.
COPIES = {
    "_to_copy", "alias", "alias_copy", "clone", "contiguous", "detach", "detach_copy", "lift", "lift_fresh", "lift_fresh_copy", "to",
    "type_as",
}  # fmt: skip

# Their output has the numbers of the input in the same order, in another shape.
RESHAPES = {
    "_reshape_alias", "_unsafe_view", "flatten", "ravel", "reshape", "reshape_as", "squeeze", "squeeze_copy", "unflatten", "unsqueeze",
    "unsqueeze_copy", "view", "view_as", "view_copy",
}  # fmt: skip

TRANSPOSITIONS = {
    "t", "t_copy", "transpose", "transpose_copy", "swapaxes", "swapdims", "permute", "permute_copy", "mT", "numpy_T", "adjoint",
}  # fmt: skip
EXPANSIONS = {"expand", "expand_as", "expand_copy", "broadcast_to"}
SPLITS = {
    "split", "split_with_sizes", "split_copy", "split_with_sizes_copy", "chunk", "unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes",
}  # fmt: skip

_BATCH_NORMS = """
_batch_norm_no_update _batch_norm_with_update _native_batch_norm_legit _native_batch_norm_legit_no_training batch_norm cudnn_batch_norm
native_batch_norm
"""
_POINTWISE = """
__and__ __ilshift__ __ixor__ __lshift__ __or__ __rshift__ __xor__ _conj _conj_physical _neg_view _weight_norm _weight_norm_interface abs
absolute acos acosh add addcdiv addcmul alpha_dropout angle asin asinh atan atan2 atanh bernoulli bitwise_and bitwise_left_shift
bitwise_not bitwise_or bitwise_right_shift bitwise_xor ceil celu clamp clamp_max clamp_min clip complex conj conj_physical copysign cos
cosh deg2rad div divide dropout elu eq equal erf erfc erfinv exp exp2 expm1 feature_dropout float_power floor floor_divide fmax fmin fmod
frac gcd ge gelu glu greater greater_equal gt hardshrink hardsigmoid hardswish hardtanh heaviside hypot imag isclose isfinite isinf isnan
isneginf isposinf isreal lcm ldexp le leaky_relu lerp less less_equal lgamma log log10 log1p log2 log_sigmoid log_sigmoid_forward
logaddexp logaddexp2 logical_and logical_not logical_or logical_xor logit lt masked_fill maximum minimum mish mul multiply nan_to_num
native_dropout ne neg negative nextafter not_equal positive polar pow prelu _prelu_kernel rad2deg real reciprocal relu relu6 remainder
round rrelu rrelu_with_noise rsqrt rsub selu sgn sigmoid sign signbit silu sin sinc sinh softplus softshrink sqrt square sub subtract tan
tanh tanhshrink threshold true_divide trunc view_as_complex view_as_real where xlogy
"""
_POOLING = """
_adaptive_avg_pool2d _adaptive_avg_pool3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa adaptive_avg_pool1d adaptive_avg_pool2d
adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d grid_sampler
grid_sampler_2d grid_sampler_3d max_pool1d max_pool1d_with_indices max_pool2d max_pool2d_with_indices max_pool3d max_pool3d_with_indices
upsample_bicubic2d upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_trilinear3d
"""
_REDUCTIONS = """
all amax amin aminmax any argmax argmin argsort count_nonzero cummax cummin cumprod cumsum linalg_norm linalg_vector_norm logcumsumexp
logsumexp max mean median min norm prod sort std std_mean sum topk unique_consecutive _unique2 var var_mean nansum
"""
_LAYOUT = """
as_strided atleast_1d atleast_2d atleast_3d cat channel_shuffle col2im concat concatenate constant_pad_nd copy diag diag_embed diagonal
diagonal_copy dstack expand flip gather hstack im2col index index_add index_copy index_fill index_put index_select masked_scatter
masked_select meshgrid movedim moveaxis narrow narrow_copy native_channel_shuffle nonzero pad pixel_shuffle pixel_unshuffle
reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d roll
rot90 scatter scatter_add scatter_reduce select select_copy select_scatter slice slice_copy slice_scatter stack take take_along_dim tile
tril triu unbind unbind_copy unfold vstack
"""
_CREATION = """
arange bucketize empty empty_like empty_permuted empty_strided eye fill full full_like linspace logspace new_empty new_full new_ones
new_zeros normal one_hot ones ones_like rand rand_like randint randn randn_like randperm scalar_tensor searchsorted tril_indices
triu_indices zero zeros zeros_like resize
"""

# Free: they are part of a neighbouring kernel, or run once when the network is loaded.
FUSED = set((_BATCH_NORMS + _POINTWISE + _POOLING + _REDUCTIONS + _LAYOUT + _CREATION).split())
FUSED |= COPIES | RESHAPES | TRANSPOSITIONS | EXPANSIONS | SPLITS


def plain_name(name: str) -> str:
    """The name of an operator without the '_' of its in-place variant: 'relu' for 'relu_', but '__and__' as it is."""
    return name if name.startswith("__") else name.rstrip("_")
