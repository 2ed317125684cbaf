"""The order in which the authors' public code of Omni-Fedge goes through minibatches.

Every node of its Omni-Fedge takes three minibatches in a round: one for the step of the shared layers, one for that of
the task layers, and one on which losses are measured for the weights of the next round. Before the first round there is
one more for the losses of the start. The nodes of its FedSGD are other objects with the same data and take one; their
first gradient is that of Omni-Fedge's nodes at the start. A node's data are shuffled and dealt anew when all nodes of
Omni-Fedge have been through theirs, which FedSGD's nodes then do, too, wherever they are.

A *turn* is a deal and one of its minibatches, both counted from 0.
"""

from dataclasses import dataclass

LOOKS = 2  # at a minibatch, for a gradient: the code computes each loss twice
FOR_A_ROUND = 3


@dataclass
class _Node:
    """The counters of one node; all nodes of a method have the same."""

    batches: int
    index: int = 0
    deal: int = -1
    may_deal: bool = True
    went_through: bool = False

    def next(self) -> tuple[int, int]:
        self.index += 1
        turn = (-1, -1)
        for _ in range(LOOKS):
            batch = self.index - 1
            if self.index >= self.batches - 1:
                self.went_through = True
                if self.index > self.batches - 1:
                    self.index = 0
            if self.may_deal:
                self.deal += 1
                self.may_deal = self.went_through = False
            turn = self.deal, batch % self.batches
        return turn


def turns_of_omni_fedge(rounds: int, batches: int) -> list[tuple[int, int]]:
    """The turn of the losses at the start, then those of every round: shared layers, task layers, losses."""
    return _turns(rounds, batches)[0]


def turns_of_fedsgd(rounds: int, batches: int) -> list[tuple[int, int]]:
    """The turn of every round."""
    return _turns(rounds, batches)[1]


def _turns(rounds: int, batches: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    ours, theirs = _Node(batches), _Node(batches)
    of_ours = [ours.next()]
    of_theirs = of_ours[:]
    for _ in range(rounds):
        of_theirs.append(theirs.next())
        of_ours += [ours.next() for _ in range(FOR_A_ROUND)]
        if ours.went_through:
            ours.may_deal = theirs.may_deal = True
    return of_ours, of_theirs[:rounds]
