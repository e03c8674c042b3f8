"""A policy over all sequences of a small vocabulary, so that every expectation is a finite sum: no sampling, no tolerance but rounding."""

from __future__ import annotations

import itertools

import torch

from monitor.corrections import Batch, Support


class Tree:
    """Every prefix of up to `depth` tokens has logits of its own; `lag` and `discrepancy` move generator and engine away from them."""

    def __init__(self, seed, *, vocabulary=4, depth=3, lag=0.0, discrepancy=0.0, reward_mean=1.0, reward_spread=1.0):
        draw = torch.Generator().manual_seed(seed)
        prefixes = [prefix for length in range(depth) for prefix in itertools.product(range(vocabulary), repeat=length)]
        self.prefixes = {prefix: index for index, prefix in enumerate(prefixes)}
        self.leaves = list(itertools.product(range(vocabulary), repeat=depth))
        self.tokens = torch.tensor(self.leaves)
        self.places = torch.tensor([[self.prefixes[leaf[:t]] for t in range(depth)] for leaf in self.leaves])

        def noise(scale):
            return scale * torch.randn(len(prefixes), vocabulary, dtype=torch.float64, generator=draw)

        self.logits = noise(1.0).requires_grad_()
        self.generator = (self.logits.detach() + noise(lag)).log_softmax(-1)
        self.engine = (self.generator + noise(discrepancy)).log_softmax(-1)
        reward = torch.randn(len(self.leaves), dtype=torch.float64, generator=draw)
        self.reward = reward_mean + reward_spread * (reward - reward.mean()) / reward.std(unbiased=False)

    @property
    def policy(self):
        """log pi_theta, [prefixes, V], with gradient."""
        return self.logits.log_softmax(-1)

    def of_tokens(self, table):
        """Log-probabilities of each token of each leaf, [leaves, depth]."""
        return table[self.places].gather(-1, self.tokens[..., None])[..., 0]

    def probability(self, table):
        """Probability of each leaf."""
        return self.of_tokens(table).sum(-1).exp()

    def batch(self, advantages=None, **changes):
        """Each leaf once. Advantages are the leaf's reward unless given."""
        policy = self.policy
        support = Support(
            engine=self.engine[self.places], current=policy[self.places], same_weights=self.generator[self.places], complete=True
        )
        columns = {
            "current": self.of_tokens(policy),
            "rollout": self.of_tokens(self.engine),
            "same_weights": self.of_tokens(self.generator),
            "advantages": self.reward if advantages is None else advantages,
            "mask": torch.ones_like(self.tokens, dtype=torch.bool),
            "support": support,
        }
        return Batch(**columns | changes)

    def expected(self, correction, advantages=None):
        """E_mu of the correction's estimator, [prefixes, V], in logits: each leaf's gradient times its probability under the engine."""
        loss = correction(self.batch(advantages)).loss
        return -torch.autograd.grad((self.probability(self.engine)[:, None] * loss).sum(), self.logits)[0]

    @property
    def target(self):
        """The gradient of the expected reward under the trainer's own policy."""
        return torch.autograd.grad((self.probability(self.policy) * self.reward).sum(), self.logits)[0]

    def given(self, table, values):
        """E[values | prefix] under a policy, [prefixes], and the probability of each prefix, [prefixes]."""
        probability = self.probability(table)
        mass = torch.zeros(len(self.prefixes), dtype=torch.float64)
        total = mass.clone()
        for t in range(self.tokens.shape[1]):
            mass.index_add_(0, self.places[:, t], probability)
            total.index_add_(0, self.places[:, t], probability * values)
        return total / mass, mass


def weights(correction, batch):
    """The constant that a correction puts before grad log pi(y) of each token: the derivative of minus its loss in `current`, A = 1."""
    leaf = batch.current.detach().requires_grad_()
    columns = {name: getattr(batch, name) for name in ("mask", "rollout", "same_weights", "support")}
    ones = torch.ones(len(leaf), dtype=leaf.dtype)
    return torch.autograd.grad(-correction(Batch(current=leaf, advantages=ones, **columns)).loss.sum(), leaf)[0]
