import torch

from sample_runs.lab.warm_start import warm_start


def test_the_warm_start_learns_and_is_the_same_for_the_same_seed():
    said = []
    first, again = (warm_start(0, scale=0.02, progress=said.append) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(value.requires_grad for value in first.values())
    losses = [float(line.split("loss ")[1].split()[0]) for line in said]
    assert losses[0] < 2.8  # untrained: ln 24 = 3.2 nats and more
