"""Networks exported by PyTorch: shapes and multiply-adds worked out by hand, whatever operators the export chose."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="archives are written by the package 'torch'")

from torch import nn  # noqa: E402 - the skip comes first
from torch.nn import functional as F  # noqa: E402, N812 - as everybody calls it
from torch.nn.utils import prune  # noqa: E402

from dse.networks.layers import LayerArrays, LayerRow  # noqa: E402
from dse.readers import parsed_network  # noqa: E402
from dse.readers.parsed_network import ParsedNetwork  # noqa: E402
from dse.readers.pytorch.network import read_exported_program  # noqa: E402


class Calling(nn.Module):
    """A module that runs a function of itself and its inputs, with parameters and parts given by name."""

    def __init__(self, run: Callable[..., Any], **parts: Any):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.run(self, *inputs)


class Block(nn.Module):
    """A basic block of a ResNet, with a strided 1 x 1 convolution on its shortcut."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(16)
        self.conv2, self.bn2 = nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        self.downsample = nn.Sequential(nn.Conv2d(8, 16, 1, stride=2, bias=False), nn.BatchNorm2d(16))
        self.pool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(16, 10)

    def forward(self, x: Any) -> Any:
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)), inplace=True)))
        return self.fc(torch.flatten(self.pool(F.relu(y + self.downsample(x))), 1))


def archive(path: Path, module: Any, *inputs: Any, decomposed: bool = False, **options: Any) -> Path:
    program = torch.export.export(module.eval(), inputs, **options)
    torch.export.save(program.run_decompositions() if decomposed else program, path)
    return path


@pytest.fixture
def exported(tmp_path: Path) -> Callable[..., ParsedNetwork]:
    return lambda module, *inputs, **options: read_exported_program(archive(tmp_path / "net.pt2", module, *inputs, **options))


def sizes(row: LayerRow) -> tuple[float | None, ...]:
    return row.m, row.k, row.n, row.count


def by_name(source: ParsedNetwork) -> dict[str, tuple[float | None, ...]]:
    return {row.name: sizes(row) for row in source.layers}


def macs(source: ParsedNetwork) -> float:
    return LayerArrays.from_rows(list(source.layers)).macs


def read_whole(source: ParsedNetwork, layer: str) -> np.ndarray:
    return np.concatenate(list(source.states[0].weights[layer].slabs()))


def became(source: ParsedNetwork, fate: str) -> dict[str, tuple[float, str]]:
    return {operator.kind: (operator.macs, operator.reason) for operator in source.operators if operator.became == fate}


def test_a_residual_block(exported):
    source = exported(Block(), torch.ones(1, 8, 12, 12))
    assert source.format == "torch.export"
    assert by_name(source) == {
        "conv1": (16, 72, 36, 1), "conv2": (16, 144, 36, 1), "downsample.0": (16, 8, 36, 1), "fc": (10, 16, 1, 1),
    }  # fmt: skip
    inputs = {row.name: (row.input_elements, row.other_parameters) for row in source.layers}
    assert inputs == {"conv1": (8 * 144, 0), "conv2": (16 * 36, 0), "downsample.0": (8 * 144, 0), "fc": (None, 10)}
    assert macs(source) == 16 * 72 * 36 + 16 * 144 * 36 + 16 * 8 * 36 + 160
    assert not became(source, "skipped")
    assert {"aten.batch_norm", "aten.relu_", "aten.add", "aten.flatten"} <= set(became(source, "fused"))


@pytest.mark.parametrize("decomposed", [False, True])
def test_samples_do_not_change_the_rows(tmp_path, decomposed):
    block, layer = Block(), nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    for module, one, four in ((block, (1, 8, 12, 12), (4, 8, 12, 12)), (layer, (1, 5, 8), (4, 5, 8))):
        read = [
            read_exported_program(archive(tmp_path / "n.pt2", module, torch.ones(shape), decomposed=decomposed)) for shape in (one, four)
        ]
        assert read[0].layers == read[1].layers
        assert read[0].notes == ()
        assert read[1].notes == (f"sizes are of one of 4 samples, which is the first dimension of '{'x' if module is block else 'src'}'",)


ENCODER = {
    "self_attn.in_proj": (24, 8, 5, 1), "matmul_1": (5, 4, 5, 2), "matmul_2": (5, 5, 4, 2), "self_attn.out_proj": (8, 8, 5, 1),
    "linear1": (16, 8, 5, 1), "linear2": (8, 16, 5, 1), "softmax_1": (None, None, None, 1), "norm_1": (None, None, None, 1),
    "norm_2": (None, None, None, 1),
}  # fmt: skip


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_transformer_encoder_layer(exported, decomposed):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    source = exported(layer, torch.ones(3, 5, 8), decomposed=decomposed)
    assert by_name(source) == ENCODER
    assert macs(source) == 5 * (24 * 8 + 8 * 8 + 2 * 8 * 16) + 2 * 2 * 5 * 5 * 4
    softmax, norm = (row for row in source.layers if row.name in ("softmax_1", "norm_1"))
    assert (softmax.input_elements, norm.output_elements) == (2 * 5 * 5, 5 * 8)
    np.testing.assert_array_equal(read_whole(source, "self_attn.in_proj"), layer.self_attn.in_proj_weight.detach().numpy())


def test_cross_attention_uses_parts_of_one_tensor(exported):
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    module = Calling(lambda self, q, k: self.attention(q, k, k, need_weights=True)[0], attention=attention)
    source = exported(module, torch.ones(2, 3, 8), torch.ones(2, 7, 8))
    assert by_name(source) == {
        "attention.in_proj": (8, 8, 3, 1), "attention.in_proj#2": (16, 8, 7, 1), "matmul_1": (3, 4, 7, 2),
        "softmax_1": (None, None, None, 1), "matmul_2": (3, 7, 4, 2), "attention.out_proj": (8, 8, 3, 1),
    }  # fmt: skip
    whole = attention.in_proj_weight.detach().numpy()
    np.testing.assert_array_equal(read_whole(source, "attention.in_proj"), whole[:8])
    np.testing.assert_array_equal(read_whole(source, "attention.in_proj#2"), whole[8:])
    assert [row.other_parameters for row in source.layers if row.name.startswith("attention.in_proj")] == [8, 16]
    assert source.shared == ()


@pytest.mark.parametrize(("kv_heads", "count", "queries"), [(8, 8, 5), (2, 2, 20), (1, 1, 40)])
def test_grouped_query_attention(exported, kv_heads, count, queries):
    module = Calling(lambda self, q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    source = exported(module, torch.ones(2, 8, 5, 16), torch.ones(2, kv_heads, 6, 16), torch.ones(2, kv_heads, 6, 4))
    assert by_name(source) == {
        "matmul_1": (queries, 16, 6, count), "softmax_1": (None, None, None, 1), "matmul_2": (queries, 6, 4, count),
    }  # fmt: skip
    assert source.layers[1].input_elements == 8 * 5 * 6
    assert [operator.macs for operator in source.operators] == [8 * 5 * 6 * (16 + 4)]


def test_attention_without_heads_has_one(exported):
    source = exported(Calling(lambda self, q: F.scaled_dot_product_attention(q, q, q)), torch.ones(2, 5, 16))
    assert by_name(source) == {"matmul_1": (5, 16, 5, 1), "softmax_1": (None, None, None, 1), "matmul_2": (5, 5, 16, 1)}


@pytest.mark.parametrize(
    ("convolution", "inputs", "expected"),
    [
        (lambda: nn.Conv2d(6, 4, 3, groups=2), (2, 6, 8, 8), (4, 27, 36, 2, 384)),
        (lambda: nn.Conv2d(6, 6, 3, groups=6, padding="same"), (2, 6, 8, 8), (6, 9, 64, 6, 384)),
        (lambda: nn.Conv1d(3, 5, 4, stride=2, bias=False), (2, 3, 10), (5, 12, 4, 1, 30)),
        (lambda: nn.Conv3d(2, 3, 2, dilation=2), (2, 2, 5, 5, 5), (3, 16, 27, 1, 250)),
        (lambda: nn.Conv2d(6, 4, 1), (6, 8, 8), (4, 6, 64, 1, 384)),
    ],
    ids=["grouped", "depthwise", "one_dimension", "three_dimensions", "without_samples"],
)
def test_convolutions(exported, convolution, inputs, expected):
    module = convolution()
    source = exported(nn.Sequential(module), torch.ones(inputs))
    (row,) = source.layers
    assert (row.m, row.k, row.n, row.groups, row.input_elements) == expected
    assert row.other_parameters == (expected[0] if module.bias is not None else 0)
    assert source.states[0].weights["0"].shape == tuple(module.weight.shape)


PRODUCTS = {
    "transposed": lambda self, x: x @ self.w.t(),
    "functional": lambda self, x: F.linear(x, self.w),
    "from_the_left": lambda self, x: (self.w @ x.transpose(1, 2)).transpose(1, 2),
    "cast_and_viewed": lambda self, x: torch.mm(x.reshape(-1, 4), self.w.view(2, 4, 4).reshape(8, 4).to(torch.float32).permute(1, 0)),
    "repeated_for_samples": lambda self, x: torch.bmm(x, self.w.t().unsqueeze(0).expand(2, 4, 8)),
    "added": lambda self, x: torch.addmm(x.new_zeros(8), x.reshape(6, 4), self.w.detach().t()),
}


@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("product", PRODUCTS)
def test_every_product_with_a_parameter_is_one_layer(exported, product, decomposed):
    weight = nn.Parameter(torch.randn(8, 4))
    source = exported(Calling(PRODUCTS[product], w=weight), torch.ones(2, 3, 4), decomposed=decomposed)
    assert by_name(source) == {"w": (8, 4, 3, 1)}
    np.testing.assert_array_equal(read_whole(source, "w"), weight.detach().numpy())
    assert source.notes[1:] == ()


def test_several_matrices_in_one_parameter_are_groups(exported):
    experts = nn.Parameter(torch.randn(3, 4, 5))
    source = exported(Calling(lambda self, x: torch.matmul(x.unsqueeze(1), self.experts), experts=experts), torch.ones(2, 7, 4))
    (row,) = source.layers
    assert (*sizes(row), row.groups) == (15, 4, 7, 1, 3)
    np.testing.assert_array_equal(read_whole(source, "experts"), experts.detach().numpy().transpose(0, 2, 1).reshape(15, 4))


def test_products_of_activations(exported):
    module = Calling(lambda self, x, y: (x @ y, torch.bmm(x[:, 0], y[:, 0]), x[0, 0] @ y[0, 0]))
    source = exported(module, torch.ones(2, 3, 4, 5), torch.ones(2, 3, 5, 6))
    assert by_name(source) == {"matmul_1": (4, 5, 6, 3), "matmul_2": (4, 5, 6, 1), "matmul_3": (4, 5, 6, 0.5)}
    assert source.states[0].weights == {}


def test_a_tensor_used_twice_is_shared(exported):
    module = Calling(lambda self, x: self.layer(self.layer(x)) + self.other(x), layer=nn.Linear(4, 4), other=nn.Linear(4, 4))
    source = exported(module, torch.ones(1, 4))
    assert [row.name for row in source.layers] == ["layer", "layer#2", "other"]
    assert source.shared == (("layer", "layer#2"),)
    assert set(source.states[0].weights) == {"layer", "layer#2", "other"}


def test_an_embedding_is_a_lookup_and_its_tied_head_a_layer(exported):
    embedding, head = nn.Embedding(11, 4), nn.Linear(4, 11, bias=False)
    head.weight = embedding.weight
    module = Calling(lambda self, tokens: self.head(self.embedding(tokens)), embedding=embedding, head=head)
    source = exported(module, torch.zeros(2, 3, dtype=torch.long))
    assert list(by_name(source).values()) == [(11, 4, 3, 1)]
    assert became(source, "fused") == {"aten.embedding": (0, "lookup")}


@pytest.mark.filterwarnings("ignore:The tensor attribute .* assigned during export:UserWarning")  # masks are applied by a hook
def test_pruned_weights_arrive_with_their_zeros(exported):
    applied, removed = nn.Linear(20, 10), nn.Conv2d(3, 5, 3)
    prune.l1_unstructured(applied, "weight", 150)
    prune.random_unstructured(removed, "weight", 100)
    prune.remove(removed, "weight")
    module = Calling(lambda self, x, y: (self.applied(x), self.removed(y)), applied=applied, removed=removed)
    source = exported(module, torch.ones(1, 20), torch.ones(1, 3, 4, 4))
    assert {name: np.count_nonzero(read_whole(source, name)) for name in source.states[0].weights} == {"applied": 50, "removed": 35}
    np.testing.assert_array_equal(read_whole(source, "applied"), applied.weight.detach().numpy())


@pytest.mark.filterwarnings("ignore:No complete tensor found in the group:UserWarning")  # parts of a tensor, saved without the whole
def test_weights_that_do_not_lie_in_order(exported):
    channels_last = nn.Conv2d(3, 5, 3).to(memory_format=torch.channels_last)
    fused = torch.randn(3, 4, 6)
    module = Calling(
        lambda self, x, y: (self.conv(y), F.linear(x, self.first), F.linear(x, self.second)),
        conv=channels_last, first=nn.Parameter(fused[1]), second=nn.Parameter(fused[2, :2].t().contiguous().t()),
    )  # fmt: skip
    source = exported(module, torch.ones(1, 6), torch.ones(1, 3, 4, 4))
    np.testing.assert_array_equal(read_whole(source, "conv"), channels_last.weight.detach().numpy())
    np.testing.assert_array_equal(read_whole(source, "first"), fused[1].numpy())
    np.testing.assert_array_equal(read_whole(source, "second"), fused[2, :2].numpy())


@pytest.mark.parametrize(("dtype", "short"), [(torch.bfloat16, "bf16"), (torch.float16, "fp16"), (torch.float64, "fp64")])
def test_number_types(exported, dtype, short):
    layer = nn.Linear(4, 3, dtype=dtype)
    source = exported(nn.Sequential(layer), torch.ones(1, 4, dtype=dtype))
    assert source.states[0].weights["0"].dtype == short
    np.testing.assert_array_equal(read_whole(source, "0").astype(np.float64), layer.weight.detach().double().numpy())


def test_large_weights_come_in_pieces(exported, monkeypatch):
    monkeypatch.setattr(parsed_network, "SLAB_BYTES", 100)
    layer = nn.Linear(10, 7)
    source = exported(nn.Sequential(layer), torch.ones(1, 10))
    assert [slab.shape for slab in source.states[0].weights["0"].slabs()] == [(2, 10), (2, 10), (2, 10), (1, 10)]
    np.testing.assert_array_equal(read_whole(source, "0"), layer.weight.detach().numpy())


def test_derived_weights_are_a_layer_whose_zeros_are_unknown(exported):
    source = exported(Calling(lambda self, x: F.linear(x, self.w.exp()), w=nn.Parameter(torch.ones(3, 4))), torch.ones(1, 4))
    assert by_name(source) == {"w": (3, 4, 1, 1)}
    assert source.states[0].weights == {}
    assert source.notes == ("the weights of 'w' are computed by aten.exp, so their zeros are not known",)


def test_scaled_weights_keep_their_zeros(exported):
    source = exported(Calling(lambda self, x: F.linear(x, self.w * 0.5), w=nn.Parameter(torch.eye(4))), torch.ones(1, 4))
    np.testing.assert_array_equal(read_whole(source, "w"), np.eye(4) / 2)


@torch.library.custom_op("dse_tests::mystery", mutates_args=())
def mystery(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x.clone()


@mystery.register_fake
def _(x, weight):
    return torch.empty_like(x)


LOWER_BOUND = "; at least one multiply-add for each of its parameters"
SKIPPED = {
    "aten.conv_transpose2d": (Calling(lambda self, x: self.up(x), up=nn.ConvTranspose2d(4, 6, 3, groups=2)), (2, 4, 5, 5), 4 * 3 * 9 * 25, "a transposed convolution"),
    "aten.einsum": (Calling(lambda self, x: torch.einsum("b...k,...km->b...m", x, self.w), w=nn.Parameter(torch.ones(3, 4, 5))), (2, 3, 4), 3 * 4 * 5, "einsum 'b...k,...km->b...m'"),
    "aten.bilinear": (Calling(lambda self, x: self.layer(x, x), layer=nn.Bilinear(4, 4, 3)), (2, 4), 51, "there is no formula for it" + LOWER_BOUND),
    "aten.gru": (Calling(lambda self, x: self.layer(x)[0], layer=nn.GRU(4, 6, batch_first=True)), (2, 7, 4), 7 * (18 * 4 + 18 * 6), "a recurrent network"),
    "aten.lstm": (Calling(lambda self, x: self.layer(x)[0], layer=nn.LSTM(4, 6)), (7, 1, 4), 24 * 4 + 24 * 6, "a recurrent network"),
    "higher_order.cond": (Calling(lambda self, x: torch.cond(x.sum() > 0, lambda x, w: x @ w, lambda x, w: x + 1, (x, self.w)), w=nn.Parameter(torch.ones(4, 4))), (2, 4), 16, "its branches are not read" + LOWER_BOUND),
    "dse_tests.mystery": (Calling(lambda self, x: mystery(x, self.w), w=nn.Parameter(torch.ones(3, 4))), (2, 4), 12, "unknown operator" + LOWER_BOUND),
    "aten.fft_fft": (Calling(lambda self, x: torch.fft.fft(x).real), (2, 4), 0, "unknown operator"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:The tensor attributes? .* assigned during export:UserWarning")  # recurrent networks assign theirs
@pytest.mark.parametrize("kind", SKIPPED)
def test_what_is_not_understood_is_counted(exported, kind):
    module, shape, least, reason = SKIPPED[kind]
    source = exported(module, torch.ones(shape))
    assert source.layers == ()
    assert became(source, "skipped") == {kind: (least, reason)}


def test_a_transposed_convolution_of_the_general_operator(exported):
    source = exported(nn.Sequential(nn.ConvTranspose1d(4, 6, 3)), torch.ones(2, 4, 5), decomposed=True)
    assert became(source, "skipped") == {"aten.convolution": (4 * 6 * 3 * 5, "a transposed convolution")}


def test_what_runs_without_gradients_is_looked_into(exported):
    def run(self: Any, x: Any) -> Any:
        with torch.no_grad():
            y = self.layer(x)
        return self.layer(y) + x

    source = exported(Calling(run, layer=nn.Linear(4, 4)), torch.ones(2, 3, 4))
    assert by_name(source) == {"layer": (4, 4, 3, 1), "layer#2": (4, 4, 3, 1)}
    assert not became(source, "skipped")


def test_dynamic_sizes_are_those_of_the_export(exported):
    batch, tokens = torch.export.Dim("batch", max=64), torch.export.Dim("tokens", max=512)
    module = Calling(lambda self, x: self.layer(x).reshape(x.shape[0], -1), layer=nn.Linear(4, 4))
    source = exported(module, torch.ones(3, 7, 4), dynamic_shapes={"inputs": ({0: batch, 1: tokens},)})
    assert by_name(source) == {"layer": (4, 4, 7, 1)}
    assert source.notes[1].startswith("dynamic sizes are those of the export: ")
    assert {part.split(" = ")[1] for part in source.notes[1].rpartition(": ")[2].split(", ")} == {"3", "7"}
    assert not {"aten.sym_size", "_operator.mul"} & {operator.kind for operator in source.operators}


def test_sizes_that_depend_on_numbers_are_noted(exported):
    module = Calling(lambda self, x: self.layer(x[x[:, 0] > 0]), layer=nn.Linear(4, 4))
    source = exported(module, torch.ones(3, 4))
    assert source.notes[-1].startswith("taken as 1, since they are known only when the network runs: u")


def test_a_vector_is_one_sample(exported):
    source = exported(Calling(lambda self, x: self.fc(x), fc=nn.Linear(8, 5)), torch.ones(8))
    assert by_name(source) == {"fc": (5, 8, 1, 1)}
