"""Dense baselines of sparse kernels: in a column of the row, or in rows of their own."""

from dse.calibrate.efficiency_ratios import compute_ratios
from dse.calibrate.tables.launches import group_launches, match_shapes, pair_with_baselines
from dse.calibrate.tables.measurement_set import load_measurements

HEAD = "device,kernel,release,pattern,dtype,m,k,n,time_ms,dense_kernel,dense_ms,source"


def load(folder, *rows):
    path = folder / "t.csv"
    path.write_text("\n".join([HEAD, *(f"a100-sxm4-80gb,{row},a test" for row in rows)]) + "\n")
    return load_measurements(path)


def names(measured):
    return {key.kernel: baseline.kernel for key, baseline in pair_with_baselines(measured).items()}


def test_a_dense_time_in_a_row_of_its_own_is_a_baseline(tmp_path):
    measured = load(
        tmp_path,
        "sparse,,2:4,fp16,1024,1024,64,0.5,,", "sparse,,2:4,fp16,2048,1024,64,0.8,,",
        "blas,,dense,fp16,4096,1024,64,3,,", "blas,,dense,fp16,2048,1024,64,1,,",
    )  # fmt: skip
    assert names(measured) == {"sparse": "blas"}
    launches = {key.kernel: value for key, value in group_launches(measured).items()}
    assert match_shapes(launches["sparse"], launches["blas"]) == ([1], [1])
    (ratio,) = compute_ratios(measured)
    assert ratio.launches == 1


def test_the_dense_time_of_the_row_comes_first(tmp_path):
    measured = load(tmp_path, "sparse,,2:4,fp16,1024,1024,64,0.5,mine,0.7", "blas,,dense,fp16,1024,1024,64,0.6,,")
    assert names(measured) == {"sparse": "mine"}


def test_a_dense_time_of_another_row_counts_for_a_kernel_without(tmp_path):
    """As in tables with a dense time for one sparse kernel of each shape."""
    rows = "sparse,,2:4,fp16,1024,1024,64,0.5,blas,0.7", "other,,2:4,fp16,1024,1024,64,0.4,,"
    assert names(load(tmp_path, *rows)) == {"sparse": "blas", "other": "blas"}


def test_of_several_dense_kernels_the_release_then_the_shapes_then_the_time_decide(tmp_path):
    sparse = [f"sparse,1,2:4,fp16,{m},1024,64,0.5,," for m in (1024, 2048)]
    slow, fast = (f"{name},2,dense,fp16,1024,1024,64,{time},," for name, time in (("slow", 0.9), ("fast", 0.6)))
    both = [f"both,2,dense,fp16,{m},1024,64,0.95,," for m in (1024, 2048)]
    same_release = "same,1,dense,fp16,1024,1024,64,0.99,,"
    assert names(load(tmp_path, *sparse, slow, fast)) == {"sparse": "fast"}
    assert names(load(tmp_path, *sparse, slow, fast, *both)) == {"sparse": "both"}
    assert names(load(tmp_path, *sparse, slow, fast, *both, same_release)) == {"sparse": "same"}


def test_other_dtypes_and_shapes_are_no_baseline(tmp_path):
    rows = "sparse,,2:4,fp16,1024,1024,64,0.5,,", "blas,,dense,bf16,1024,1024,64,0.6,,", "blas,,dense,fp16,1024,1024,128,0.6,,"
    assert names(load(tmp_path, *rows)) == {}
