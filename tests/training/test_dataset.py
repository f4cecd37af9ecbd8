"""The digits of scikit-learn, and every error of a file of arrays."""

import numpy as np
import pytest

from dse.base.errors import InputError
from dse.training.dataset import load_digits, read_dataset

IMAGES = np.zeros((6, 4, 4), np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2])
GOOD = {"train_images": IMAGES, "train_labels": LABELS, "test_images": IMAGES[:2], "test_labels": LABELS[:2]}


def test_half_of_the_digits_of_each_class_are_trained_on():
    digits = load_digits()
    assert len(digits.train_images) + len(digits.test_images) == 1797
    assert digits.image_shape == (8, 8, 1)
    assert digits.labels == 10
    assert (digits.train_images.min(), digits.train_images.max()) == (0, 1)
    parts = (np.bincount(labels) for labels in (digits.train_labels, digits.test_labels))
    assert np.abs(np.subtract(*parts)).max() <= 1


def test_integers_are_scaled_and_a_channel_is_added(tmp_path):
    np.savez(tmp_path / "mine.npz", **(GOOD | {"train_images": np.full((6, 4, 4), 255, np.uint8)}))
    dataset = read_dataset(tmp_path / "mine.npz")
    assert dataset.name == "mine"
    assert dataset.train_images.shape == (6, 4, 4, 1)
    assert (dataset.train_images == 1).all()
    assert dataset.labels == 3


@pytest.mark.parametrize(
    ("changes", "messages"),
    [
        (
            {"train_images": np.full((6, 4, 4), np.nan), "test_labels": np.array([0.5, 1.0])},
            ["train_images: a pixel is not finite", "test_labels: labels of type float64 are not whole numbers"],
        ),
        ({"train_labels": LABELS[:5]}, ["train_labels: an array of shape (5,) cannot be the labels of 6 images"]),
        ({"train_images": np.zeros((6, 16))}, ["train_images: an array of shape (6, 16) cannot be images"]),
        ({"train_images": np.zeros((6, 4, 4), complex)}, ["train_images: an array of complex128 cannot be images"]),
        ({"test_images": np.zeros((2, 5, 4))}, ["images to train on have the shape (4, 4, 1), those to test on (5, 4, 1)"]),
        ({"test_labels": np.array([0, 3])}, ["no image to train on has the label 3 of the test"]),
        ({"train_labels": np.array([0, 1, 3, 0, 1, 3])}, ["the labels to train on are 0, 1, 3"]),
        ({"train_labels": np.zeros(6, int), "test_labels": np.zeros(2, int)}, ["the labels to train on are 0;"]),
        ({"train_labels": -LABELS}, ["train_labels: labels from -2 to 0 are out of range"]),
        ({"test_images": IMAGES[:0], "test_labels": LABELS[:0]}, ["test_images: an array of shape (0, 4, 4) cannot be images"]),
    ],
)
def test_every_problem_of_a_file_is_reported(tmp_path, changes, messages):
    path = tmp_path / "bad.npz"
    np.savez(path, **(GOOD | changes))
    with pytest.raises(InputError) as error:
        read_dataset(path)
    assert all(message in str(error.value) for message in messages), str(error.value)
    assert all(str(problem).startswith(str(path)) for problem in error.value.problems)


def test_files_that_are_not_archives_of_numbers_are_refused(tmp_path):
    np.savez(tmp_path / "missing.npz", train_images=IMAGES)
    (tmp_path / "text.npz").write_text("not numbers")
    np.save(tmp_path / "one.npy", IMAGES)
    np.savez(tmp_path / "objects.npz", **(GOOD | {"train_labels": np.array([None] * 6)}))
    for name, message in (
        ("missing.npz", "has no array train_labels, test_images, test_labels"),
        ("text.npz", "truncated, corrupt, or not an archive of numbers"),
        ("one.npy", "one array, not an archive"),
        ("objects.npz", "truncated, corrupt, or not an archive of numbers"),
        ("gone.npz", "cannot be read (No such file or directory)"),
    ):
        with pytest.raises(InputError, match=message.replace("(", r"\(").replace(")", r"\)")):
            read_dataset(tmp_path / name)
