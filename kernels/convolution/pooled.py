"""A convolution with filters of 3 x 3 and max pooling over 2 x 2 in one, and its gradient with respect to the filters.

Eight filters are computed at once, at all four places of a square, whose largest value is all that is stored. Sums
begin with the bias and go through the channels, and through the pixels of a filter row by row.
"""

import numpy as np

from fedrepro.kernels._jit import kernel
from fedrepro.kernels.convolution import xla
from fedrepro.kernels.convolution.eight import LANES, larger, load, multiply_add, spread, store, where_same, zeros

SIDE, POOL = 3, 2  # which the kernels are written for
_PIXELS = SIDE * SIDE


@kernel
def _filled(values: np.ndarray, room: int) -> np.ndarray:
    """Filters as (channel, pixel, filter), filled up with filters of zeros to a multiple of eight; flat."""
    channels, filters = values.shape[2:]
    filled = np.zeros((channels, _PIXELS, room), dtype=np.float32)
    for channel in range(channels):
        for pixel in range(_PIXELS):
            filled[channel, pixel, :filters] = values[pixel // SIDE, pixel % SIDE, channel]
    return filled.reshape(-1)


@kernel
def _pixels(x: np.ndarray, at: int, across: int, down: int) -> tuple:
    """The 4 x 4 pixels of a channel behind a pooled square, row by row."""
    a, b, c, d = at, at + down, at + 2 * down, at + 3 * down
    return (
        spread(x, a), spread(x, a + across), spread(x, a + 2 * across), spread(x, a + 3 * across),
        spread(x, b), spread(x, b + across), spread(x, b + 2 * across), spread(x, b + 3 * across),
        spread(x, c), spread(x, c + across), spread(x, c + 2 * across), spread(x, c + 3 * across),
        spread(x, d), spread(x, d + across), spread(x, d + 2 * across), spread(x, d + 3 * across),
    )  # fmt: skip


@kernel
def _dot(p: tuple, w: tuple, first: int, total):
    """The filters at the place of a square whose upper left pixel is the ``first``, added to ``total``."""
    total = multiply_add(p[first], w[0], total)
    total = multiply_add(p[first + 1], w[1], total)
    total = multiply_add(p[first + 2], w[2], total)
    total = multiply_add(p[first + 4], w[3], total)
    total = multiply_add(p[first + 5], w[4], total)
    total = multiply_add(p[first + 6], w[5], total)
    total = multiply_add(p[first + 8], w[6], total)
    total = multiply_add(p[first + 9], w[7], total)
    return multiply_add(p[first + 10], w[8], total)


@kernel
def _at_four_places(x, at, across, down, filters, first, room, bias):
    """What eight filters, from the ``first`` on, make of a square."""
    y0, y1, y2, y3 = bias, bias, bias, bias
    for channel in range(across):
        p = _pixels(x, at + channel, across, down)
        f = first + channel * _PIXELS * room
        w = (
            load(filters, f), load(filters, f + room), load(filters, f + 2 * room),
            load(filters, f + 3 * room), load(filters, f + 4 * room), load(filters, f + 5 * room),
            load(filters, f + 6 * room), load(filters, f + 7 * room), load(filters, f + 8 * room),
        )  # fmt: skip
        y0, y1, y2, y3 = _dot(p, w, 0, y0), _dot(p, w, 1, y1), _dot(p, w, 4, y2), _dot(p, w, 5, y3)
    return y0, y1, y2, y3


@kernel
def convolve_and_pool(x: np.ndarray, weights: np.ndarray, biases: np.ndarray, out: np.ndarray) -> None:
    """Fill ``out``, shape (n, height, width, filters).

    Parameters
    ----------
    x
        Images of shape (n, rows, columns, channels), in single precision as all that follows.
    weights, biases
        Filters of shape (3, 3, channels, filters), and a number for each.
    """
    n, height, width, filters = out.shape
    across = x.shape[3]
    down = x.shape[2] * across
    room = -(-filters // LANES) * LANES
    packed, pixels = _filled(weights, room), x.reshape(-1)
    starts, row = np.zeros(room, dtype=np.float32), np.empty(room, dtype=np.float32)
    starts[:filters] = biases
    for image in range(n):
        for i in range(height):
            for j in range(width):
                at = (image * x.shape[1] + POOL * i) * down + POOL * j * across
                for first in range(0, room, LANES):
                    y0, y1, y2, y3 = _at_four_places(pixels, at, across, down, packed, first, room, load(starts, first))
                    store(row, first, larger(larger(y0, y1), larger(y2, y3)))
                for f in range(filters):
                    out[image, i, j, f] = row[f]


@kernel
def _add_slopes(x, at, across, down, slopes, first, room, z0, z1, z2, z3):
    """Add the gradient with respect to eight filters, given that with respect to the four places of a square."""
    for channel in range(across):
        p = _pixels(x, at + channel, across, down)
        f = first + channel * _PIXELS * room
        _add_slope(slopes, f, p[0], p[1], p[4], p[5], z0, z1, z2, z3)
        _add_slope(slopes, f + room, p[1], p[2], p[5], p[6], z0, z1, z2, z3)
        _add_slope(slopes, f + 2 * room, p[2], p[3], p[6], p[7], z0, z1, z2, z3)
        _add_slope(slopes, f + 3 * room, p[4], p[5], p[8], p[9], z0, z1, z2, z3)
        _add_slope(slopes, f + 4 * room, p[5], p[6], p[9], p[10], z0, z1, z2, z3)
        _add_slope(slopes, f + 5 * room, p[6], p[7], p[10], p[11], z0, z1, z2, z3)
        _add_slope(slopes, f + 6 * room, p[8], p[9], p[12], p[13], z0, z1, z2, z3)
        _add_slope(slopes, f + 7 * room, p[9], p[10], p[13], p[14], z0, z1, z2, z3)
        _add_slope(slopes, f + 8 * room, p[10], p[11], p[14], p[15], z0, z1, z2, z3)


@kernel
def _add_slope(slopes, at, p0, p1, p2, p3, z0, z1, z2, z3):
    total = multiply_add(p0, z0, load(slopes, at))
    total = multiply_add(p1, z1, total)
    total = multiply_add(p2, z2, total)
    store(slopes, at, multiply_add(p3, z3, total))


@kernel
def slopes_of_filters(
    x: np.ndarray, weights: np.ndarray, pulls: np.ndarray, slopes: np.ndarray, bias_slopes: np.ndarray
) -> None:
    """Fill ``slopes`` and ``bias_slopes``, the gradient of Σ pulls · out with respect to weights and biases.

    Of places with the same largest value in a square, the first has all of the gradient.
    """
    n, height, width, filters = pulls.shape
    across = x.shape[3]
    down = x.shape[2] * across
    room = -(-filters // LANES) * LANES
    packed, pixels = _filled(weights, room), x.reshape(-1)
    found = np.zeros(packed.size, dtype=np.float32)
    row, of_biases = np.zeros(room, dtype=np.float32), np.zeros(filters, dtype=np.float32)
    nothing = zeros()
    for image in range(n):
        for i in range(height):
            for j in range(width):
                at = (image * x.shape[1] + POOL * i) * down + POOL * j * across
                for f in range(filters):
                    row[f] = pulls[image, i, j, f]
                    of_biases[f] += pulls[image, i, j, f]
                for first in range(0, room, LANES):
                    y0, y1, y2, y3 = _at_four_places(pixels, at, across, down, packed, first, room, nothing)
                    best, left = larger(larger(y0, y1), larger(y2, y3)), load(row, first)
                    z0, left = where_same(y0, best, left, nothing), where_same(y0, best, nothing, left)
                    z1, left = where_same(y1, best, left, nothing), where_same(y1, best, nothing, left)
                    z2, z3 = where_same(y2, best, left, nothing), where_same(y2, best, nothing, left)
                    _add_slopes(pixels, at, across, down, found, first, room, z0, z1, z2, z3)
    bias_slopes[:] = of_biases
    for pixel in range(_PIXELS):
        for channel in range(across):
            for f in range(filters):
                slopes[pixel // SIDE, pixel % SIDE, channel, f] = found[(channel * _PIXELS + pixel) * room + f]


# --- as XLA calls them ------------------------------------------------------------------------------------------------


def forward_handler():
    """`convolve_and_pool` of images, weights and biases, for XLA."""

    def handler(frame):
        if not xla.asks_for_version(frame):
            convolve_and_pool(xla.given(frame, 0), xla.given(frame, 1), xla.row_given(frame, 2), xla.asked(frame, 0))
        return 0

    return xla.capsule(handler)


def backward_handler():
    """`slopes_of_filters` of images, weights and pulls, for XLA."""

    def handler(frame):
        if not xla.asks_for_version(frame):
            slopes_of_filters(
                xla.given(frame, 0), xla.given(frame, 1), xla.given(frame, 2), xla.asked(frame, 0),
                xla.row_asked(frame, 1),
            )  # fmt: skip
        return 0

    return xla.capsule(handler)
