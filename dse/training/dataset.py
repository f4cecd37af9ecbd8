"""Images and labels to train and test on: the digits that scikit-learn holds, or the arrays of a file."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from dse.base.errors import InputError, ProblemCollector

ARRAYS = ("train_images", "train_labels", "test_images", "test_labels")
SPLIT_SEED = 0
TRAIN_SHARE = 1 / 2  # of the digits
FIX = f"save the arrays {', '.join(ARRAYS)} with numpy.savez"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Images with values of about 0 to 1, and the number of the class of each."""

    name: str
    source: str
    train_images: Float[np.ndarray, "train height width channel"]
    train_labels: Int[np.ndarray, " train"]
    test_images: Float[np.ndarray, "test height width channel"]
    test_labels: Int[np.ndarray, " test"]

    @property
    def labels(self) -> int:
        """Number of classes."""
        return int(max(self.train_labels.max(), self.test_labels.max())) + 1

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        height, width, channels = self.train_images.shape[1:]
        return height, width, channels

    def sha256(self) -> str:
        """A hash of all arrays."""
        digest = hashlib.sha256()
        for array in (getattr(self, name) for name in ARRAYS):
            digest.update(f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()


def load_digits() -> Dataset:
    """The 1,797 handwritten digits of 8 x 8 pixels in scikit-learn, half of them to train on; every digit has the same share in both.

    Source: Alpaydin and Kaynak 1998, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, CC BY 4.0.
    """
    from sklearn import datasets

    data: Any = datasets.load_digits()
    images = (data.images / 16).astype(np.float32)[..., None]
    train = _stratified_choice(data.target, TRAIN_SHARE, np.random.default_rng(SPLIT_SEED))
    source = "scikit-learn, load_digits: test part of Optical Recognition of Handwritten Digits (UCI repository, CC BY 4.0)"
    labels = data.target.astype(np.int32)
    return Dataset("digits", source, images[train], labels[train], images[~train], labels[~train])


def _stratified_choice(labels: Int[np.ndarray, " image"], share: float, generator: np.random.Generator) -> np.ndarray:
    """Choose the same share of the images of every class at random."""
    chosen = np.zeros(len(labels), bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        chosen[generator.choice(members, round(share * len(members)), replace=False)] = True
    return chosen


def read_dataset(path: Path) -> Dataset:
    """Read the arrays of an `.npz` file; raises InputError with everything that is wrong with them.

    `train_images`, `test_images`: [image, height, width] or [image, height, width, channel], finite; integers are divided by the
    largest value of their type. `train_labels`, `test_labels`: [image], whole numbers from 0 on, each of which some training image has.
    """
    arrays, problems = _load_arrays(path), ProblemCollector()
    images, labels = dict[str, np.ndarray](), dict[str, np.ndarray]()
    for part in ("train", "test"):
        with problems.collect(path, key=f"{part}_images"):
            images[part] = _check_images(arrays[f"{part}_images"])
        with problems.collect(path, key=f"{part}_labels"):
            labels[part] = _check_labels(arrays[f"{part}_labels"], len(arrays[f"{part}_images"]) if arrays[f"{part}_images"].ndim else 0)
    with problems.collect(path):
        _check_parts(images, labels)
    problems.raise_if_any()
    return Dataset(path.stem, f"arrays of {path.name}", images["train"], labels["train"], images["test"], labels["test"])


def _load_arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        loaded = np.load(path, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise InputError("one array, not an archive of them", FIX, path)
        with loaded as file:
            missing = [name for name in ARRAYS if name not in file.files]
            if missing:
                raise InputError(f"has no array {', '.join(missing)}", FIX, path)
            return {name: file[name] for name in ARRAYS}
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"cannot be read ({error.strerror or 'not a NumPy archive'})", FIX, path) from error
    except Exception as error:  # a damaged archive raises errors of many types
        raise InputError("truncated, corrupt, or not an archive of numbers", FIX, path) from error


def _check_images(images: np.ndarray) -> np.ndarray:
    """Images as fp32 [image, height, width, channel]."""
    if images.dtype.kind not in "biuf":
        raise InputError(f"an array of {images.dtype} cannot be images", "save numbers")
    if images.ndim not in (3, 4) or not images.size:
        raise InputError(f"an array of shape {images.shape} cannot be images", "save [image, height, width] or [.., channel]")
    if not np.isfinite(images).all():
        raise InputError("a pixel is not finite", "save finite numbers")
    scale = np.iinfo(images.dtype).max if images.dtype.kind in "iu" else 1
    scaled = (images / scale).astype(np.float32)
    return scaled if images.ndim == 4 else scaled[..., None]


def _check_labels(labels: np.ndarray, images: int) -> np.ndarray:
    """Labels as int32 [image]."""
    if labels.ndim != 1 or len(labels) != images:
        raise InputError(f"an array of shape {labels.shape} cannot be the labels of {images} images", "save one label for each image")
    if labels.dtype.kind not in "iu":
        raise InputError(f"labels of type {labels.dtype} are not whole numbers", "save integers from 0 on")
    if len(labels) and (labels.min() < 0 or labels.max() >= 10_000):
        raise InputError(f"labels from {labels.min()} to {labels.max()} are out of range", "number the classes from 0 on, below 10000")
    return labels.astype(np.int32)


def _check_parts(images: dict[str, np.ndarray], labels: dict[str, np.ndarray]) -> None:
    """Check the parts for training and for testing against each other."""
    if len(images) == 2 and images["train"].shape[1:] != images["test"].shape[1:]:
        what = f"images to train on have the shape {images['train'].shape[1:]}, those to test on {images['test'].shape[1:]}"
        raise InputError(what, "save images of one shape")
    if len(labels) < 2:
        return
    classes = np.unique(labels["train"])
    if len(classes) < 2 or classes[-1] != len(classes) - 1:
        raise InputError(f"the labels to train on are {_listed(classes)}", "number two or more classes from 0 on, without a gap")
    if len(unknown := np.setdiff1d(labels["test"], classes)):
        raise InputError(f"no image to train on has the label {_listed(unknown)} of the test", "train on every class that is tested")


def _listed(numbers: np.ndarray) -> str:
    return ", ".join(map(str, numbers[:10])) + (", ..." if len(numbers) > 10 else "")
