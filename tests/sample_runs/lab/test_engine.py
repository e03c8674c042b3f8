import numpy as np
import pytest
import torch

from sample_runs.lab.engine import Engine, Request
from sample_runs.lab.model import token_logprobs
from sample_runs.lab.settings import EngineSettings, Sampling
from sample_runs.lab.task import PROMPT, prompt_pool

POOL = prompt_pool(4, seed=1)
SAMPLING = Sampling()
# Float32 sums in another order: logits of about 20 carry 2e-6 each, a log-probability a few of them.
FP32 = 3e-5


def engine_of(weights, *, sampling=SAMPLING, **settings):
    return Engine(EngineSettings(**({"dtype": "float32", "max_num_seqs": 8} | settings)), sampling, weights, seed=5)


def ask(*prompt_ids):
    return [Request(sample_id=n, group_id=n, prompt_id=p, prompt=POOL[p]) for n, p in enumerate(prompt_ids)]


def finish(engine, before_tick=None):
    done = []
    with torch.no_grad():
        for tick in range(20):
            if before_tick:
                before_tick(tick)
            done += engine.tick()
    return sorted(done, key=lambda response: response.request.sample_id)


def full_forward(response, weights, temperature=SAMPLING.temperature):
    text = torch.from_numpy(np.concatenate([response.request.prompt, response.tokens]))[None]
    with torch.no_grad():
        logp, _ = token_logprobs(weights, text, temperature)
    return logp[0, PROMPT - 1 :].numpy()


@pytest.mark.parametrize("block", [0, 4])
def test_decoding_token_by_token_equals_the_full_forward_pass_in_float32(weights, block):
    engine = engine_of(weights, attention_block=block)
    engine.admit(ask(0, 1, 2, 3, 0))
    responses = finish(engine)
    assert [response.request.sample_id for response in responses] == [0, 1, 2, 3, 4]
    for response in responses:
        np.testing.assert_allclose(response.logprobs, full_forward(response, weights), atol=FP32)


def test_a_slot_that_is_used_again_does_not_see_the_earlier_response(weights):
    engine = engine_of(weights, max_num_seqs=1)
    for prompt in (0, 1):
        engine.admit(ask(prompt))
        (response,) = finish(engine)
        np.testing.assert_allclose(response.logprobs, full_forward(response, weights), atol=FP32)


def test_weights_pushed_in_flight_change_the_version_inside_a_response(weights, other_weights):
    engine = engine_of(weights)
    engine.admit(ask(0, 1, 2))
    long_enough = [r for r in finish(engine, lambda tick: tick == 3 and engine.push(other_weights, version=7)) if len(r.tokens) > 4]
    assert long_enough
    for response in long_enough:
        assert response.versions.tolist() == [0] * 3 + [7] * (len(response.tokens) - 3)
        np.testing.assert_allclose(response.logprobs[:3], full_forward(response, weights)[:3], atol=FP32)


@pytest.mark.parametrize(("at_update", "stale"), [("recompute", False), ("keep", True)])
def test_keys_and_values_of_unfinished_responses_are_stale_only_if_kept(weights, other_weights, at_update, stale):
    engine = engine_of(weights, kv_at_weight_update=at_update)
    engine.admit(ask(0, 1, 2))
    responses = finish(engine, lambda tick: tick == 3 and engine.push(other_weights, version=7))
    off = np.concatenate([np.abs(r.logprobs - full_forward(r, other_weights))[3:] for r in responses])
    assert (off.max() > 1e-2) if stale else (off.max() < FP32)


def test_the_prefix_cache_differs_only_after_an_update_and_only_for_hits(weights, other_weights):
    engine = engine_of(weights, enable_prefix_caching=True)
    engine.admit(ask(0, 0))
    for response in finish(engine):  # one miss and one hit, both under the first weights
        np.testing.assert_allclose(response.logprobs, full_forward(response, weights), atol=FP32)
    with torch.no_grad():
        engine.push(other_weights, version=1)
    engine.admit(ask(0, 1))
    hit, miss = finish(engine)
    assert (hit.prompt_version, miss.prompt_version) == (0, 1)
    assert np.abs(hit.logprobs - full_forward(hit, other_weights)).max() > 1e-2
    np.testing.assert_allclose(miss.logprobs, full_forward(miss, other_weights), atol=FP32)


def test_a_cached_prefix_is_not_lost_when_its_slot_serves_another_prompt(weights):
    engine = engine_of(weights, enable_prefix_caching=True, max_num_seqs=1)
    for prompt in (0, 1, 0):
        engine.admit(ask(prompt))
        (response,) = finish(engine)
        np.testing.assert_allclose(response.logprobs, full_forward(response, weights), atol=FP32)


def test_without_the_prefix_cache_an_update_leaves_nothing_behind(weights, other_weights):
    engine = engine_of(weights)
    engine.admit(ask(0))
    finish(engine)
    with torch.no_grad():
        engine.push(other_weights, version=1)
    engine.admit(ask(0))
    (response,) = finish(engine)
    np.testing.assert_allclose(response.logprobs, full_forward(response, other_weights), atol=FP32)


def test_raw_logprobs_are_those_at_temperature_one(weights):
    engine = engine_of(weights, logprobs_mode="raw_logprobs")
    engine.admit(ask(0, 1))
    for response in finish(engine):
        np.testing.assert_allclose(response.logprobs, full_forward(response, weights, temperature=1.0), atol=FP32)


@pytest.mark.parametrize(("dtype", "least", "most"), [("bfloat16", 1e-4, 0.1), ("fp8_e4m3", 1e-3, 0.5), ("int4", 1e-2, 2.0)])
def test_a_coarser_format_is_further_from_the_trainer(weights, dtype, least, most):
    engine = engine_of(weights, dtype=dtype)
    engine.admit(ask(0, 1, 2, 3) * 2)
    off = np.concatenate([np.abs(response.logprobs - full_forward(response, weights)) for response in finish(engine)])
    assert least < off.mean() < most


def test_top_k_and_top_p_keep_every_sampled_token_inside_the_kept_set(weights):
    engine = engine_of(weights, sampling=Sampling(top_k=2))
    engine.admit(ask(0, 1, 2, 3))
    for response in finish(engine):
        assert (np.exp(response.entropies) <= 2 + 1e-6).all()
