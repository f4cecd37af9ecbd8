"""Names of GPUs as people write them in published tables are devices of the catalogue."""

import pytest

from dse.base import catalog
from dse.calibrate.device_names import find_devices, nearest_device
from dse.calibrate.published.table import RowLeftOut, device_name

NAMES = {
    "a100-pcie-80gb": ("A100-PCIe-80GB", "A100 PCIe", "a100_pcie", "NVIDIA A100 80GB PCIe"),
    "a100-sxm4-80gb": ("A100", "A100-SXM4", "A100 SXM", "a100_sxm", "NVIDIA A100-SXM4-80GB", "A100 80GB"),
    "a100-sxm4-40gb": ("NVIDIA A100-SXM4-40GB",),
    "h100-pcie-80gb": ("h100_pcie", "H100_PCIe", "NVIDIA H100 PCIe", "H100PCIe"),
    "h100-sxm5-80gb": ("h100_sxm", "H100 SXM", "NVIDIA H100 80GB HBM3", "H100-SXM5-80 GB"),
    "h100-nvl": ("NVIDIA H100 NVL", "h100_nvl_94gb"),
    "h200-sxm-141gb": ("h200_sxm", "H200 SXM", "NVIDIA H200", "H200-SXM5-141GB"),
    "b200-sxm-180gb": ("b200_sxm", "B200 SXM", "B200", "NVIDIA B200"),
    "b300": ("b300_sxm",), "gb200": ("GB200", "GB200 NVL72"), "gb300": ("gb300",), "gb10": ("GB10", "NVIDIA GB10"),
    "h20": ("h20", "NVIDIA H20"), "l4": ("L4", "NVIDIA L4 24GB"), "l40s": ("l40s", "NVIDIA L40S"),
    "rtx3090": ("RTX 3090",), "rtx4090": ("RTX 4090", "NVIDIA GeForce RTX 4090", "rtx_4090"),
    "rtx6000-ada": ("NVIDIA RTX 6000 Ada Generation",), "rtx-pro-6000": ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition",),
    "mi210": ("MI210",), "mi300x": ("MI300X", "AMD Instinct MI300X"), "v100-sxm2-32gb": ("Tesla V100-SXM2-32GB",), "t4": ("Tesla T4",),
}  # fmt: skip


@pytest.mark.parametrize(("device", "name"), [(device, name) for device, names in NAMES.items() for name in names])
def test_a_name_as_people_write_it_is_a_device_of_the_catalogue(device, name):
    assert device_name(name) == device


def test_every_device_of_the_catalogue_has_its_own_name():
    names = catalog.list_names("accel_models")
    assert [find_devices(name) for name in names] == [(name,) for name in names]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("H100", "'H100' may be any of h100-nvl, h100-pcie-80gb, h100-sxm5-80gb"),
        ("h800", "no description of 'h800', did you mean 'h200-sxm-141gb'?"),
        ("A100-PCIe-40GB", "no description of 'A100-PCIe-40GB', did you mean 'a100-sxm4-80gb'?"),
        ("GeForce RTX 4090 D", "no description of 'GeForce RTX 4090 D', did you mean 'rtx4090'?"),
        ("NVIDIA H100 64GB HBM3", "no description of 'NVIDIA H100 64GB HBM3', did you mean 'h100-sxm5-80gb'?"),
        ("H100 96GB", "no description of 'H100 96GB', did you mean 'h100-sxm5-80gb'?"),
        ("RTX 3090 12GB", "no description of 'RTX 3090 12GB', did you mean 'rtx3090'?"),
        ("Intel Gaudi 2", "no description of 'Intel Gaudi 2', did you mean 'gaudi3'?"),
    ],
)
def test_other_names_have_a_reason_that_says_what_is_near(name, reason):
    with pytest.raises(RowLeftOut) as caught:
        device_name(name)
    assert str(caught.value) == reason


def test_a_name_without_letters_has_a_nearest_one():
    assert nearest_device("") in catalog.list_names("accel_models")
