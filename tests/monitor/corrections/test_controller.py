"""The resync controller: when it fires, that its sums overflow nothing, and that every rank decides what one process would."""

import math

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing

from monitor.corrections import BatchError, Mode, ResyncController
from monitor.metrics.terms import Level
from tests import oracles

LEVELS = [Level.TOKEN, Level.SEQUENCE, Level.SEQUENCE_MEAN]


def _expected(x, mask, level):
    """ESS over the counted tokens or sequences, in exact arithmetic, of the dashboard's own oracles."""
    rows = [[float(value) for value, counts in zip(*pair, strict=True) if counts] for pair in zip(x, mask, strict=True)]
    tokens = [value for row in rows for value in row]
    sample = [index for index, row in enumerate(rows) for _ in row]
    by_level = {Level.TOKEN: lambda: oracles.ess(tokens), Level.SEQUENCE: lambda: oracles.ess_sequence(tokens, sample)}
    return by_level.get(level, lambda: oracles.ess_sequence_mean(tokens, sample))()


def _lags(seed, scale=0.5, sequences=9, tokens=6):
    draw = np.random.default_rng(seed)
    x = torch.tensor(draw.normal(size=(sequences, tokens)) * scale)
    mask = torch.tensor(draw.random((sequences, tokens)) < 0.7)
    mask[3] = False
    return x, mask


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [1e-4, 0.5, 30.0, 900.0])
def test_it_is_the_ess_of_the_dashboard(level, scale):
    x, mask = _lags(1, scale)
    found = ResyncController(level=level).decide(x, mask)
    assert found.ess == pytest.approx(_expected(x, mask, level), rel=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_packed_is_padded(level):
    x, mask = _lags(2)
    offsets = torch.arange(0, x.numel() + 1, x.shape[1])
    padded = ResyncController(level=level).decide(x, mask)
    assert ResyncController(level=level).decide(x.flatten(), mask.flatten(), offsets).ess == pytest.approx(padded.ess, rel=1e-14)


@pytest.mark.parametrize(("mode", "discard"), [(Mode.STRICT, True), (Mode.LENIENT, False)])
def test_it_fires_below_the_threshold_and_not_at_it(mode, discard):
    """Weights 1 and w: ESS = (1 + w)^2 / (2 + 2 w^2)."""
    mask = torch.ones(2, 1, dtype=torch.bool)
    x = torch.tensor([[0.0], [math.log(3.0)]], dtype=torch.float64)  # 16 / 20
    at = ResyncController(threshold=0.8 - 1e-12, mode=mode).decide(x, mask)
    below = ResyncController(threshold=0.8 + 1e-12, mode=mode).decide(x, mask)
    assert (at.resync, at.discard) == (False, False)
    assert (below.resync, below.discard) == (True, discard)
    assert at.ess == pytest.approx(0.8)


def test_a_constant_offset_is_what_it_cannot_see():
    assert ResyncController().decide(torch.full((4, 3), 2.0), torch.ones(4, 3, dtype=torch.bool)).ess == pytest.approx(1)


def test_an_empty_batch_decides_nothing():
    for shape in ((3, 2), (0, 2), (2, 0)):
        found = ResyncController().decide(torch.zeros(shape), torch.zeros(shape, dtype=torch.bool))
        assert math.isnan(found.ess)
        assert not found.resync
        assert not found.discard


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_token_that_is_no_number_does_not_count(value):
    x, mask = _lags(3)
    without = mask.clone()
    place = tuple(int(index[0]) for index in mask.nonzero(as_tuple=True))
    without[place] = False
    spoilt = x.clone()
    spoilt[place] = value
    for level in LEVELS:
        assert ResyncController(level=level).decide(spoilt, mask).ess == ResyncController(level=level).decide(x, without).ess


TOKENS = torch.ones(4, 6, dtype=torch.bool)
MISFITS = {
    "packed without offsets": ("log_lag", (torch.zeros(6), TOKENS[0])),
    "offsets of a padded batch": ("log_lag", (torch.zeros(4, 6), TOKENS, torch.tensor([0, 24]))),
    "three dimensions": ("log_lag", (torch.zeros(4, 6, 1), TOKENS[..., None])),
    "whole numbers": ("log_lag", (torch.zeros(4, 6, dtype=torch.int64), TOKENS)),
    "one row of the mask": ("mask", (torch.zeros(4, 6), TOKENS[0])),
    "one sequence of the mask": ("mask", (torch.zeros(4, 6), TOKENS[:1])),
    "a mask of numbers": ("mask", (torch.zeros(4, 6), TOKENS.float())),
    "offsets that end early": ("offsets", (torch.zeros(6), TOKENS[0], torch.tensor([0, 5]))),
    "offsets in disorder": ("offsets", (torch.zeros(6), TOKENS[0], torch.tensor([0, 4, 2, 6]))),
    "offsets as int32": ("offsets", (torch.zeros(6), TOKENS[0], torch.tensor([0, 6], dtype=torch.int32))),
}


@pytest.mark.parametrize("what", MISFITS)
def test_shapes_that_do_not_fit_are_refused(what):
    where, arguments = MISFITS[what]
    controller = ResyncController()
    with pytest.raises(BatchError, match=rf"^{where}: ") as raised:
        controller.decide(*arguments)
    assert raised.value.remedy
    assert controller.decisions == 0


SETTINGS = {"level": Level.TOKEN, "threshold": 0.6, "mode": Mode.LENIENT}


def _checkpoint(path):
    """A controller that decided twice, and what its file holds."""
    x, mask = _lags(4, 2.0)
    first = ResyncController(**SETTINGS)
    first.decide(x, mask)
    first.decide(x * 0, mask)
    torch.save(first.state_dict(), path / "state.pt")
    return first, torch.load(path / "state.pt", weights_only=True)


def test_its_state_survives_a_checkpoint(tmp_path):
    first, state = _checkpoint(tmp_path)
    second = ResyncController(**SETTINGS)
    second.load_state_dict(state)
    assert second == first
    assert (second.decisions, second.resyncs, second.last_ess) == (2, 1, 1.0)


@pytest.mark.parametrize(("setting", "value"), [("level", Level.SEQUENCE), ("threshold", 0.7), ("mode", Mode.STRICT)])
def test_a_setting_changed_in_the_code_is_never_overwritten(tmp_path, setting, value):
    _, state = _checkpoint(tmp_path)
    changed = ResyncController(**SETTINGS | {setting: value})
    with pytest.raises(ValueError, match=rf"{setting} is {value} here and {SETTINGS[setting]} in the checkpoint") as raised:
        changed.load_state_dict(state)
    assert not any(f"{other} is" in str(raised.value) for other in SETTINGS.keys() - {setting})
    assert changed.decisions == 0
    changed.load_state_dict(state, strict=False)
    assert getattr(changed, setting) == value
    assert (changed.decisions, changed.resyncs, changed.last_ess) == (2, 1, 1.0)


@pytest.mark.parametrize("part", ["level", "threshold", "mode", "decisions", "resyncs", "last_ess"])
def test_a_checkpoint_that_lacks_a_part_is_refused_whole(part):
    state = ResyncController(decisions=7, resyncs=3, last_ess=0.2).state_dict()
    del state[part]
    controller = ResyncController()
    with pytest.raises(KeyError, match=part):
        controller.load_state_dict(state)
    assert (controller.decisions, controller.resyncs) == (0, 0)


def test_what_has_no_meaning_is_refused():
    for options in ({"threshold": 0.0}, {"threshold": 1.5}, {"level": Level.STEP}):
        with pytest.raises(ValueError, match=r"threshold|level"):
            ResyncController(**options)


def _rank(rank, folder, world):
    """One of several processes, each with sequences of its own; writes down what it decided."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=world)
    try:
        found = []
        for x, mask in _batches():
            mine = slice(rank, None, world)
            found.extend(ResyncController(level=level).decide(x[mine], mask[mine]) for level in LEVELS)
        everyone = [None] * world
        distributed.all_gather_object(everyone, found)
        if rank == 0:
            torch.save([[(one.ess, one.resync, one.discard) for one in by_rank] for by_rank in everyone], f"{folder}/found.pt")
    finally:
        distributed.destroy_process_group()


def _batches():
    """Healthy, torn, of very different size on the two ranks, empty on one rank, empty on both."""
    x, mask = _lags(5)
    far = torch.where(torch.arange(len(x))[:, None] % 2 == 0, x + 800, x - 800)
    one_empty = mask & (torch.arange(len(x))[:, None] % 2 == 0)
    return [(x, mask), (4 * x, mask), (far, mask), (x, one_empty), (x, mask & False)]


def test_two_ranks_decide_what_one_process_would(tmp_path):
    multiprocessing.spawn(_rank, args=(str(tmp_path), 2), nprocs=2)
    by_rank = torch.load(tmp_path / "found.pt", weights_only=True)
    alone = [ResyncController(level=level).decide(x, mask) for x, mask in _batches() for level in LEVELS]
    for first, second, expected in zip(*by_rank, alone, strict=True):
        np.testing.assert_equal(second, first)  # to the last bit, so that no rank waits for another
        assert first[0] == pytest.approx(expected.ess, rel=1e-12, nan_ok=True)
        assert first[1:] == (expected.resync, expected.discard)
    assert {decision.resync for decision in alone} == {True, False}
