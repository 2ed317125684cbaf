"""Ensembles of pre-trained base predictors h_1 ... h_q, of which only the mixture weights are learned.

Two kinds share one layout, a sparse matrix with a row per predictor:

- *densities*: h_k(v) over the elements v of a finite domain (a unigram model; X is empty, as in FedBoost, Section 3);
- *predictions*: h_k(x_i) on the samples of one federation (regressors, the probability of the observed class).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from fedrepro.calls import checked
from fedrepro.data.federation import Federation
from fedrepro.errors import UserError

_LARGEST_DOMAIN = 10_000_000  # elements that any federation may have; one with many samples may have more


@dataclass(frozen=True)
class Ensemble:
    """Base predictors as compressed sparse rows; build one with a function of this module.

    Attributes
    ----------
    indptr, indices, values
        Row k holds h_k where it is not zero.
    columns
        Size of the domain (densities), or number of samples (predictions).
    densities
        Whether rows are distributions over a domain.
    background, smoothing
        A distribution mixed into every predictor: h_k = values + smoothing * background.
    order
        The ``order`` of the federation whose samples are predicted; None for densities.
    classes
        Whether predictions are probabilities of the observed classes.
    models
        The models that predict, where `from_models` was given them.
    """

    how_to_make: ClassVar[str] = (
        "make one of it with from_models, from_predictions or from_densities of fedrepro.models.ensemble, or take its "
        "point_masses or unigrams"
    )

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    columns: int
    densities: bool
    background: np.ndarray = field(default_factory=lambda: np.zeros(0))
    smoothing: float = 0.0
    order: np.ndarray | None = None
    classes: bool = False
    models: tuple | None = None

    def __len__(self) -> int:
        return self.indptr.size - 1

    @property
    def sizes(self) -> np.ndarray:
        """Scalars that describe each predictor."""
        return np.diff(self.indptr).astype(np.float64)

    def dense(self) -> np.ndarray:
        """The (q, columns) matrix of all predictors."""
        matrix = np.zeros((len(self), self.columns))
        rows = np.repeat(np.arange(len(self)), np.diff(self.indptr))
        matrix[rows, self.indices] = self.values
        if self.smoothing > 0:
            matrix += self.smoothing * self.background
        return matrix

    def mixed(self, alpha: np.ndarray) -> np.ndarray:
        """Σ_k alpha_k h_k on every element or sample."""
        weights = np.repeat(alpha, np.diff(self.indptr)) * self.values
        mixture = np.bincount(self.indices, weights, minlength=self.columns)
        return mixture + alpha.sum() * self.smoothing * self.background if self.smoothing > 0 else mixture

    def select(self, predictors) -> "Ensemble":
        """The ensemble of the predictors with these numbers, in their order."""
        from scipy import sparse

        rows = sparse.csr_array((self.values, self.indices, self.indptr), (len(self), self.columns))[predictors]
        models = None if self.models is None else tuple(self.models[k] for k in np.arange(len(self))[predictors])
        indptr, indices = rows.indptr.astype(np.int64), _short(rows.indices)
        return replace(self, indptr=indptr, indices=indices, values=rows.data, models=models)

    def check_predicts(self, federation: Federation, loss: str) -> None:
        """The predictions were made for this federation, and suit the loss."""
        if self.columns != len(federation):
            raise UserError(
                f"The ensemble predicts {self.columns} samples and the federation has {len(federation)}: "
                "make the predictions on this federation's x."
            )
        if not _same_order(self.order, federation.order):
            raise UserError(
                "The ensemble was made for a federation with another order of samples: make it for this one."
            )
        if loss == "squared" and self.classes:
            raise UserError("The ensemble holds probabilities of the observed classes: use them with the log loss.")
        if loss == "log":
            _check_probabilities(self.values)


@checked
def from_densities(matrix) -> Ensemble:
    """Base predictors given as the rows of a matrix of distributions, dense or scipy.sparse."""
    return _from_matrix(matrix, densities=True)


@checked
def from_predictions(predictions, federation: Federation) -> Ensemble:
    """Base predictors given by their predictions on the arrays that a federation was built from.

    Parameters
    ----------
    predictions
        One row per predictor and one column per sample, dense or scipy.sparse: values, for the squared loss, or the
        probability of the class that was observed, for the log loss. The columns stand in the order of the arrays that
        ``Federation.from_arrays`` was given, and are brought into the order of the federation here. For predictions
        on ``federation.x`` itself, use `from_models`.
    federation
        The federation of these samples.
    """
    ensemble = _from_matrix(predictions, densities=False)
    n = len(federation)
    if ensemble.columns != n:
        turned = " (one row per predictor: transpose it)" if len(ensemble) == n else ""
        raise UserError(
            f"There are predictions on {ensemble.columns} samples and the federation has {n}: "
            f"give one prediction for each sample{turned}."
        )
    if federation.order is None:
        raise UserError("The federation does not know the order of its samples: build it with Federation.from_arrays.")
    return _in_order(federation.order, ensemble)


@checked
def from_models(
    models: Iterable[Callable[[np.ndarray], Any] | Any] | Mapping[str, Any], federation: Federation
) -> Ensemble:
    """Base predictors given as models, which are asked about the federation's own ``x``.

    Parameters
    ----------
    models
        Trained models: objects with ``predict_proba`` or ``predict``, as scikit-learn's are, or functions from ``x`` to
        predictions. One number per sample is a prediction, for the squared loss. One column per class holds
        probabilities, for the log loss: of each row the entry of the observed class ``y`` is kept.
    federation
        The samples, with features.
    """
    if federation.x is None:
        raise UserError("Models predict from features, and the federation has none: give x to Federation.from_arrays.")
    try:
        given = list(models.values() if isinstance(models, Mapping) else models)
    except TypeError:
        raise UserError(f"models must be a list of models, not {type(models).__name__}.") from None
    answers = [_answer(model, number, federation) for number, model in enumerate(given)]
    if len({classes for _, classes in answers}) > 1:
        raise UserError("Some models predict values and others probabilities of classes: an ensemble has one kind.")
    rows = np.array([answer for answer, _ in answers]).reshape(len(given), len(federation))
    ensemble = _from_matrix(rows, densities=False)
    return replace(ensemble, order=federation.order, classes=answers[0][1], models=tuple(given))


@checked
def point_masses(q: int) -> Ensemble:
    """q predictors, each a point mass on an element of its own (FedBoost, Section 5.1)."""
    if not 1 <= q <= _LARGEST_DOMAIN:
        raise UserError(
            f"An ensemble has a positive whole number of point masses, up to {_LARGEST_DOMAIN:,}, not {q!r}."
        )
    return Ensemble(np.arange(q + 1), np.arange(q, dtype=np.uint32), np.ones(q), columns=q, densities=True)


@checked
def unigrams(federation: Federation, *, smoothing: float = 0.0) -> Ensemble:
    """One unigram model per client: the client's own relative frequencies of the elements in ``y``.

    Parameters
    ----------
    federation
        Its ``y`` holds element numbers 0, 1, ...; the domain ends with the largest.
    smoothing
        Share of the pooled distribution in every model. Zero leaves words that a client never said without mass;
        Section 3 of FedBoost asks for predictors that are positive everywhere.
    """
    if not 0 <= smoothing < 1:
        raise UserError(f"smoothing={smoothing} is not a share: choose it from 0 (none) to below 1.")
    indptr, indices, values = client_distributions(federation)
    columns = int(federation.y.max()) + 1
    if smoothing == 0:
        return Ensemble(indptr, indices, values, columns, densities=True)
    pooled = np.bincount(federation.y, minlength=columns) / federation.y.size
    return Ensemble(indptr, indices, (1 - smoothing) * values, columns, True, pooled, smoothing)


def client_distributions(federation: Federation) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each client's empirical distribution over the elements in ``y``, as compressed sparse rows."""
    if not np.issubdtype(federation.y.dtype, np.integer) or federation.y.min() < 0:
        raise UserError("A density needs element numbers 0, 1, ... in y: encode the elements as whole numbers first.")
    columns = int(federation.y.max()) + 1
    if columns > max(_LARGEST_DOMAIN, 10 * len(federation)):
        raise UserError(
            f"The element {columns - 1} in y means a domain of {columns:,} elements, far more than there are samples: "
            "number the elements that occur 0, 1, ... (np.unique(y, return_inverse=True)[1])."
        )
    client = np.repeat(np.arange(federation.n_clients), federation.sizes)
    pairs, counts = np.unique(client * columns + federation.y, return_counts=True)
    owner = pairs // columns
    indptr = np.searchsorted(owner, np.arange(federation.n_clients + 1))
    return indptr.astype(np.int64), (pairs % columns).astype(np.uint32), counts / federation.sizes[owner]


def _check_probabilities(values: np.ndarray) -> None:
    """Values that are not zero, under the log loss."""
    if values.min(initial=0.0) < 0:
        raise UserError("The log loss needs predicted probabilities, and a prediction is negative: use 'squared'.")
    if values.max(initial=0.0) > 1 + 1e-9:
        raise UserError(
            "The log loss needs the predicted probability of the class that was observed, and a prediction is above 1: "
            "class labels or scores are no probabilities (from_models asks models for theirs)."
        )
    if (values == 1).all():
        raise UserError(
            "The log loss needs the predicted probability of the class that was observed, and all predictions are "
            "0 or 1, as class labels are (from_models asks models for their probabilities)."
        )


def _from_matrix(matrix, densities: bool) -> Ensemble:
    from scipy import sparse

    if np.ma.isMaskedArray(matrix):
        raise UserError("The base predictors are a masked array: fill the masked entries.")
    try:
        given = matrix if sparse.issparse(matrix) else np.asarray(matrix, dtype=np.float64)
        if given.ndim != 2:
            raise UserError(f"The base predictors have the shape {given.shape}: give a matrix, one row per predictor.")
        rows = sparse.csr_array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UserError(f"The base predictors are not a matrix of numbers: {str(error).splitlines()[0]}") from error
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    if 0 in given.shape:
        raise UserError("An ensemble needs at least one base predictor over at least one element or sample.")
    if not np.all(np.isfinite(rows.data)):
        raise UserError("A base predictor has a value that is not a finite number.")
    if densities and (rows.data.min(initial=0.0) < 0 or not np.allclose(rows.sum(axis=1), 1.0, atol=1e-9)):
        raise UserError("A base predictor is not a distribution: its values must be non-negative and sum to 1.")
    return Ensemble(rows.indptr.astype(np.int64), _short(rows.indices), rows.data, given.shape[1], densities)


def _same_order(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _in_order(order: np.ndarray, ensemble: Ensemble) -> Ensemble:
    """Predictions whose columns stand as the caller's arrays do, as the federation's samples stand."""
    from scipy import sparse

    n = order.size
    if np.array_equal(order, np.arange(n)):
        return replace(ensemble, order=order)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    rows = sparse.csr_array((ensemble.values, place[ensemble.indices], ensemble.indptr), (len(ensemble), n))
    rows.sort_indices()
    return replace(ensemble, indices=_short(rows.indices), values=rows.data, order=order)


def _short(indices: np.ndarray) -> np.ndarray:
    return indices.astype(np.uint32)


def answer_of(model, number: int, x: np.ndarray) -> np.ndarray:
    """What a model predicts: a number for each sample, or a row with the probabilities of the classes."""
    ask = getattr(model, "predict_proba", None) or getattr(model, "predict", None) or model
    if isinstance(model, type) or not callable(ask):
        raise UserError(
            f"Model {number} ({type(model).__name__}) cannot be asked: give objects with predict_proba or predict, or "
            "functions from x to predictions."
        )
    answer = np.asarray(ask(x))
    if answer.ndim not in (1, 2) or len(answer) != len(x) or answer.dtype.kind not in "biuf":
        raise UserError(
            f"Model {number} answers with an array of shape {answer.shape} and type {answer.dtype} for "
            f"{len(x)} samples: it must give a number, or one probability per class, for each."
        )
    return answer.reshape(-1).astype(np.float64) if answer.ndim == 1 or answer.shape[1] == 1 else answer


def observed_classes(classes: np.ndarray, who: str, federation: Federation) -> np.ndarray:
    """The place of each sample's own class among those that a model knows; -1 where it has never seen that class."""
    observed = federation.y
    if classes.dtype.kind not in "biuf":
        if federation.vocabulary is None:
            raise UserError(f"The classes of {who} are texts, and those of the federation are numbers.")
        classes, observed = classes.astype(str), np.array(federation.vocabulary)[observed]
    column = {label: at for at, label in enumerate(classes.tolist())}
    places = np.array([column.get(label, -1) for label in observed.tolist()])
    if (places < 0).all():
        raise UserError(
            f"{who[0].upper()}{who[1:]} knows none of the classes in y: train it on the federation's labels."
        )
    return places


def _answer(model, number: int, federation: Federation) -> tuple[np.ndarray, bool]:
    """What a model predicts on the samples of a federation, and whether that is the probability of a class."""
    answer = answer_of(model, number, federation.features)
    if answer.ndim == 1:
        return answer, False
    classes = np.asarray(getattr(model, "classes_", np.arange(answer.shape[1])))
    if classes.shape != answer.shape[1:]:
        raise UserError(f"Model {number} gives {answer.shape[1]} probabilities for {classes.size} classes.")
    places = observed_classes(classes, f"model {number}", federation)
    return np.where(places < 0, 0.0, answer[np.arange(len(answer)), places]), True
