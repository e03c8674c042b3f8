import numpy as np
import pytest
import torch

from sample_runs.lab.study_policy import ENGINES, decode, distributions, engine_distributions, loaded, warm_start
from sample_runs.lab.study_task import PROMPT, RESPONSE, prompts
from sample_runs.lab.task import EOS

FP32 = 3e-5  # as in test_engine


def sampled(weights, engine, seed=0, count=6, begin=None):
    asked = prompts(count, np.random.default_rng(seed))
    return decode(loaded(weights, engine), engine, asked, torch.Generator().manual_seed(seed), begin)


def test_an_exact_engine_samples_from_what_the_trainer_evaluates(begun):
    batch = sampled(begun, "float32")
    logp = distributions(begun, batch.texts)
    torch.testing.assert_close(batch.engine[batch.mask], logp[batch.mask], atol=FP32, rtol=0)


@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "float32"])
def test_a_coarse_engine_does_not_and_says_the_same_of_a_text_that_is_there(begun, engine):
    batch = sampled(begun, engine)
    off = (batch.engine - distributions(begun, batch.texts))[batch.mask].abs().mean()
    held = engine_distributions(loaded(begun, engine), engine, batch.texts)
    assert off > 1e-3
    assert torch.equal(batch.engine[batch.mask], held[batch.mask])


def test_coarseness_is_ordered(begun):
    off = []
    for engine in ("bfloat16", "fp8_e4m3", "int4"):
        batch = sampled(begun, engine)
        off.append(float((batch.engine - distributions(begun, batch.texts))[batch.mask].abs().mean()))
    assert off == sorted(off)


def test_the_mask_ends_with_the_end_of_text_and_what_is_kept_is_a_distribution(begun):
    batch = sampled(begun, "fp8_e4m3", count=40)
    torch.testing.assert_close(batch.engine.exp().sum(dim=-1), torch.ones(40, RESPONSE), atol=1e-5, rtol=0)
    for row in range(40):
        tokens = batch.texts[row, PROMPT:][batch.mask[row]].tolist()
        assert EOS not in tokens[:-1]
        assert len(tokens) == RESPONSE or tokens[-1] == EOS
        assert not batch.mask[row, len(tokens) :].any()


def test_tokens_are_drawn_from_the_kept_distribution(begun):
    asked = np.repeat(prompts(1, np.random.default_rng(0)), 4000, axis=0)
    batch = decode(loaded(begun, "int4"), "int4", asked, torch.Generator().manual_seed(1))
    counts = torch.bincount(batch.texts[:, PROMPT], minlength=24) / 4000
    expected = batch.engine[0, 0].exp()
    assert (counts - expected).abs().max() < 5 * (expected.max() / 4000).sqrt()


def test_a_given_beginning_is_kept_and_goes_on_by_itself(begun):
    begin = torch.full((6, 3), 20)
    batch = sampled(begun, "float32", begin=begin)
    assert (batch.texts[:, PROMPT : PROMPT + 3] == 20).all()
    logp = distributions(begun, batch.texts)
    torch.testing.assert_close(batch.engine[batch.mask], logp[batch.mask], atol=FP32, rtol=0)


def test_the_head_is_loaded_whole_and_the_rest_is_rounded(begun):
    held = loaded(begun, "int4")
    assert torch.equal(held["head"], begun["head"])
    assert len(held["0.up"][0].unique()) <= 15
    held["head"].zero_()
    assert begun["head"].abs().sum() > 0


def test_a_warm_start_learns_and_is_the_same_again():
    lines = []
    first, again = (warm_start(1, scale=0.01, progress=lines.append) for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert lines[0].startswith("warm start of the study: 20 steps with slips 0.03")
