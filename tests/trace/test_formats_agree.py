"""One pruned network, exported as ONNX, torch.export, safetensors and a state dict, gives one and the same trace."""

import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the extra 'torch' is not installed")
pytest.importorskip("onnxscript", reason="onnxscript, with which torch writes ONNX, is not installed")
pytest.importorskip("safetensors", reason="the extra 'safetensors' is not installed")

from dse.cli.entry import main  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")  # torch's exporters use what Python deprecates


class Block(torch.nn.Module):
    """Convolutions (grouped, depthwise), attention with grouped queries, normalisation, linear layers on tokens and on samples."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.norm0 = torch.nn.BatchNorm2d(16)
        self.depthwise = torch.nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.grouped = torch.nn.Conv2d(16, 32, 1, groups=4, bias=False)
        self.norm1 = torch.nn.LayerNorm(32)
        self.q, self.k, self.v = (torch.nn.Linear(32, 32, bias=bias) for bias in (True, False, True))
        self.head = torch.nn.Linear(32, 10)

    def forward(self, image):
        found = self.grouped(torch.relu(self.depthwise(self.norm0(self.stem(image)))))
        tokens = self.norm1(found.flatten(2).transpose(1, 2))
        batch, length, _ = tokens.shape
        q, k, v = (part(tokens).view(batch, length, 4, 8).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = torch.softmax(q @ k.transpose(-1, -2) / 8**0.5, -1) @ v
        return self.head(mixed.transpose(1, 2).reshape(batch, length, 32).mean(1))


def pruned() -> torch.nn.Module:
    torch.manual_seed(0)
    model = Block().eval()
    for module in model.modules():
        if isinstance(module, torch.nn.Linear | torch.nn.Conv2d):
            with torch.no_grad():
                module.weight *= torch.rand_like(module.weight) < 0.4
    return model


@pytest.fixture(scope="module")
def traces(tmp_path_factory) -> dict[str, Path]:
    """The trace of each export."""
    folder, model, image = tmp_path_factory.mktemp("exports"), pruned(), (torch.zeros(1, 3, 8, 8),)
    from safetensors.torch import save_file

    with warnings.catch_warnings(action="ignore"):
        torch.export.save(torch.export.export(model, image), folder / "net.pt2")
        torch.onnx.export(model, image, folder / "net.onnx", dynamo=True, verbose=False)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / "net.safetensors")
    torch.save(model.state_dict(), folder / "net.pt")
    for name in ("pt2", "onnx"):
        assert main(["trace", str(folder / f"net.{name}"), "-o", str(folder / name / "net")]) == 0
    for name in ("safetensors", "pt"):  # files of weights: how often each layer runs comes from another trace
        assert main(["trace", str(folder / f"net.{name}"), "-o", str(folder / name / "net"), "--like", str(folder / "pt2" / "net")]) == 0
    return {name: folder / name / "net" for name in ("pt2", "onnx", "safetensors", "pt")}


FILES = (
    "layers.csv",
    "variants/traced.csv",
    "statistics/rows.csv",
    "statistics/columns.csv",
    "statistics/blocks.csv",
    "statistics/stored.csv",
)


@pytest.mark.parametrize("file_format", ["onnx", "safetensors", "pt"])
@pytest.mark.parametrize("file", FILES)
def test_every_format_gives_the_same_tables(traces, file_format, file):
    assert (traces[file_format] / file).read_text() == (traces["pt2"] / file).read_text()


def test_the_trace_is_that_of_the_model(traces):
    import dse

    model, net = pruned(), dse.load_workload(traces["onnx"])
    (variant,) = net.variants
    density = dict(zip(net.layers.name, variant.density, strict=True))
    for name in ("stem", "depthwise", "grouped", "q", "k", "v", "head"):
        weight = model.get_submodule(name).weight
        assert density[name] * weight.numel() == torch.count_nonzero(weight)
    macs = 16 * 27 * 16 + 16 * 9 * 16 + 32 * 4 * 16 + 3 * 32 * 32 * 16 + 2 * 4 * 16 * 16 * 8 + 10 * 32
    assert net.layers.macs == macs
