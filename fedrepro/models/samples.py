"""Features that a user hands to a trained model."""

import numpy as np

from fedrepro.errors import UserError


def checked_samples(x, features: int | None = None) -> np.ndarray:
    """An array of finite numbers with a row for each sample, of as many features as the model was trained on."""
    try:
        array = np.asarray(x)
    except (TypeError, ValueError) as error:
        raise UserError(f"x cannot be made an array of numbers: {str(error).splitlines()[0]}") from error
    if np.ma.isMaskedArray(x) or array.dtype.kind not in "biuf" or array.ndim < 1:
        raise UserError("x must be an array of numbers with one row per sample.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UserError("x holds values that are not finite (NaN or infinity): remove or replace them.")
    if features is not None:
        array = array.reshape(len(array), -1) if len(array) else array.reshape(0, features)
        if array.shape[1] != features:
            raise UserError(
                f"x has {array.shape[1]} features and the model was trained on {features}: give one row per sample."
            )
    return array
