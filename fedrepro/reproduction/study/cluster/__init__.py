"""Runs trials on a Dask cluster that is already running.

The process that runs the study is the client; only it stores results. Before a worker runs anything, the client

- compares it with itself and refuses it where its results could differ: other versions, another source of this package,
  another target, several threads, JAX loaded with another thread pool;
- sends it the data sets that it has neither in its folder nor in its cache;
- admits it to this run.

The same holds for a worker that joins later or restarts. Trials travel in batches of about a fifth of a second, and the
results of a batch come back together. When a worker dies, Dask gives its batches to others; a batch on which four
workers have died comes back, and its trials are sent one by one with nothing beside them, so that the one to blame is
known.

Why not joblib's own Dask backend? It was tried (joblib 1.6.0, distributed 2026.8.0, two workers on loopback,
``return_as="generator_unordered"``). It batches short tasks well (1,000 in 0.9 s), survives the death of one worker and
ends with an error when the scheduler is lost, but

- a task that kills its workers hangs the run: 6 of 8 results, then nothing for ever, because the backend hands a
  ``KilledWorker`` to a future that nobody reads and never calls back;
- when the last worker goes, it waits in silence (8 of 200 results after 40 s);
- a worker that joins later gets tasks at once (20 of 120), and there is no place to compare it first.

It would replace what sends and receives batches here, and nothing of what compares workers, ships data, counts retries
or explains errors.

Dask is imported only when a cluster is used.
"""

from fedrepro.reproduction.study.cluster.engine import Cluster

__all__ = ["Cluster"]
