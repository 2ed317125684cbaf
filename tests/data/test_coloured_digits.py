"""Coloured digits: what colour and label say of each other in each environment, and who is in which."""

import numpy as np
import pytest

from fedrepro.data.coloured_digits import colour, coloured_digits, without_colour
from fedrepro.data.sources import finder
from fedrepro.errors import DataUnavailable, UserError


def numbered(n, seed):
    """Images whose upper left pixel is bright and whose others tell the image's number."""
    digits = np.random.default_rng(seed).integers(0, 10, n)
    x = np.zeros((n, 28, 28), dtype=np.uint8)
    x[:, 0, 0] = 255
    x[:, 2, 2], x[:, 4, 4] = np.arange(n) % 256, np.arange(n) // 256
    return x, digits.astype(np.uint8)


TRAIN, TEST = numbered(30_000, 0), numbered(8_000, 1)


def built(seed=0, **sizes):
    return colour(TRAIN, TEST, seed=seed, **{"per_environment": 10_000, "validation": 8_000} | sizes)


def who(x):
    """The number of each image."""
    pixels = np.rint(255 * x.sum(axis=-1)).astype(int)
    return pixels[:, 1, 1] + 256 * pixels[:, 2, 2]


def colours(x):
    """Which channel the bright pixel is in; the other one is empty."""
    np.testing.assert_array_equal(np.sort(x[:, 0, 0], axis=1), np.tile([0.0, 1.0], (len(x), 1)))
    return x[:, 0, 0].argmax(axis=1)


def test_colours_agree_as_often_as_the_environment_says_and_a_quarter_of_the_labels_is_wrong():
    digits = built()
    for federation, names, images in (
        (digits.train, ("90 %", "80 %"), TRAIN),
        (digits.valid, ("90 %", "80 %", "50 %"), TRAIN),
        (digits.test, ("90 %", "80 %"), TEST),
        (digits.reversed, ("10 %",), TEST),
    ):
        assert federation.domain_names == federation.client_names == names
        assert federation.x.dtype == np.float32
        assert federation.x.shape[1:] == (14, 14, 2)
        for k, name in enumerate(names):
            mine = federation.domains == k
            x, y = federation.x[mine], federation.y[mine]
            spread = 4 * 0.5 / np.sqrt(mine.sum())
            assert (colours(x) == y).mean() == pytest.approx(int(name[:-2]) / 100, abs=spread)
            large = images[1][who(x)] >= 5
            assert (large == y).mean() == pytest.approx(0.75, abs=spread)
            # Given the label, colour and shape say nothing of each other.
            for label in (0, 1):
                chosen = y == label
                assert abs(np.corrcoef(colours(x)[chosen], large[chosen])[0, 1]) < 5 / np.sqrt(chosen.sum())


def test_an_image_is_either_for_training_or_for_validation_and_test_images_are_all_used():
    digits = built()
    one, other = (who(digits.train.x[digits.train.domains == k]) for k in (0, 1))
    held_out = [who(digits.valid.x[digits.valid.domains == k]) for k in range(3)]
    assert len({*one, *other, *held_out[0]}) == 28_000
    for again in held_out[1:]:
        np.testing.assert_array_equal(again, held_out[0])
    np.testing.assert_array_equal(np.sort(who(digits.reversed.x)), np.arange(8_000))


def test_environments_draw_their_labels_and_colours_apart():
    digits = built()
    labels = [digits.valid.y[digits.valid.domains == k] for k in range(3)]
    assert 0.3 < (labels[0] != labels[1]).mean() < 0.45  # 2 · 1/4 · 3/4, of the same images


def test_without_colour_both_channels_are_alike():
    coloured = built().reversed
    grey = without_colour(coloured)
    np.testing.assert_array_equal(grey.x[..., 0], grey.x[..., 1])
    np.testing.assert_array_equal(grey.x[..., 0], coloured.x.max(axis=-1))
    np.testing.assert_array_equal(grey.y, coloured.y)
    assert grey.domain_names == ("10 %",)


def test_same_seed_same_bits_and_sizes_do_not_shift_the_draws():
    one, again, other = built(), built(), built(seed=1)
    np.testing.assert_array_equal(one.train.x, again.train.x)
    np.testing.assert_array_equal(one.valid.y, again.valid.y)
    assert (one.train.y != other.train.y).any()
    np.testing.assert_array_equal(built(per_environment=5_000).reversed.x, one.reversed.x)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"per_environment": 12_000}, "2 environments of 12000 images and 8000 .* the 30000 training images: ask for"),
        ({"per_environment": 0}, "at least 1 of each"),
        ({"validation": 0}, "at least 1 of each"),
    ],
)
def test_mistakes_are_told(sizes, sentence):
    with pytest.raises(UserError, match=sentence):
        built(**sizes)


def test_with_the_real_digits():
    try:
        finder.find("mnist")
    except DataUnavailable as problem:
        pytest.skip(str(problem))
    digits = coloured_digits(seed=3, per_environment=2_000, validation=1_000)
    assert (len(digits.train), len(digits.valid), len(digits.test), len(digits.reversed)) == (
        4_000,
        3_000,
        20_000,
        10_000,
    )
    filled = (digits.train.x > 0).any(axis=(1, 2))
    np.testing.assert_array_equal(filled.sum(axis=1), 1)  # each digit is in one channel
    agrees = filled.argmax(axis=1) == digits.train.y
    assert agrees[digits.train.domains == 0].mean() == pytest.approx(0.9, abs=0.03)
