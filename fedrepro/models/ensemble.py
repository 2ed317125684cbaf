"""Ensembles of pre-trained base predictors h_1 ... h_q, of which only the mixture weights are learned.

Two kinds share one layout, a sparse matrix with a row per predictor:

- *densities*: h_k(v) over the elements v of a finite domain (a unigram model; X is empty, as in FedBoost, Section 3);
- *predictions*: h_k(x_i) on the samples of one federation (regressors, the probability of the observed class).
"""

from dataclasses import dataclass, field

import numpy as np

from fedrepro.data.federation import Federation
from fedrepro.errors import UserError


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
    """

    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    columns: int
    densities: bool
    background: np.ndarray = field(default_factory=lambda: np.zeros(0))
    smoothing: float = 0.0

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


def from_densities(matrix) -> Ensemble:
    """Base predictors given as the rows of a matrix of distributions, dense or scipy.sparse."""
    return _from_matrix(matrix, densities=True)


def from_predictions(matrix) -> Ensemble:
    """Base predictors given by their predictions: row k holds h_k on the samples of one federation, in its order."""
    return _from_matrix(matrix, densities=False)


def point_masses(q: int) -> Ensemble:
    """q predictors, each a point mass on an element of its own (FedBoost, Section 5.1)."""
    if q < 1 or q != int(q):
        raise UserError(f"An ensemble has a positive whole number of point masses, not {q!r}.")
    return Ensemble(np.arange(q + 1), np.arange(q, dtype=np.uint32), np.ones(q), columns=q, densities=True)


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
    client = np.repeat(np.arange(federation.n_clients), federation.sizes)
    pairs, counts = np.unique(client * columns + federation.y, return_counts=True)
    owner = pairs // columns
    indptr = np.searchsorted(owner, np.arange(federation.n_clients + 1))
    return indptr.astype(np.int64), (pairs % columns).astype(np.uint32), counts / federation.sizes[owner]


def _from_matrix(matrix, densities: bool) -> Ensemble:
    from scipy import sparse

    rows = sparse.csr_array(matrix, dtype=np.float64)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.sort_indices()
    if 0 in rows.shape:
        raise UserError("An ensemble needs at least one base predictor over at least one element or sample.")
    if not np.all(np.isfinite(rows.data)):
        raise UserError("A base predictor has a value that is not a finite number.")
    if densities and (rows.data.min(initial=0.0) < 0 or not np.allclose(rows.sum(axis=1), 1.0, atol=1e-9)):
        raise UserError("A base predictor is not a distribution: its values must be non-negative and sum to 1.")
    indices = rows.indices.astype(np.uint32)
    return Ensemble(rows.indptr.astype(np.int64), indices, rows.data, rows.shape[1], densities)
