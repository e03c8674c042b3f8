import numpy as np
import pytest
import torch

from sample_runs.lab.model import token_logprobs
from sample_runs.lab.pipeline import ReadyQueue, requests, train
from sample_runs.lab.task import PROMPT
from sample_runs.lab.trainer import Trainer, assemble, lag_at_same_version, split_error

ASYNC = {"async_scheduling": True, "queue_batches": 2, "weight_sync": "deferred", "deferred_steps": 2}


def lags(batches):
    return np.concatenate([batch.columns["trainer_version"] - batch.columns["rollout_version"] for batch in batches])


def test_a_run_is_the_same_for_the_same_seed_and_another_for_another(tiny, weights):
    first, again, other = (list(train(tiny(seed=seed), weights)) for seed in (1, 1, 2))
    for a, b in zip(first, again, strict=True):
        assert all(np.array_equal(a.columns[name], b.columns[name]) for name in a.columns)
    assert not np.array_equal(first[-1].columns["token_id"], other[-1].columns["token_id"])


def test_steps_count_from_one_and_batches_are_whole_groups(tiny, weights):
    batches = list(train(tiny(steps=3), weights))
    assert [batch.step for batch in batches] == [1, 2, 3]
    for batch in batches:
        assert (batch.columns["trainer_version"] == batch.step - 1).all()
        first = batch.columns["position"] == 0
        assert first.sum() == 8
        assert np.unique(batch.columns["group_id"][first], return_counts=True)[1].tolist() == [4, 4]


def test_no_response_is_trained_twice(tiny, weights):
    seen = np.concatenate([batch.columns["sample_id"][batch.columns["position"] == 0] for batch in train(tiny(steps=6), weights)])
    assert len(np.unique(seen)) == len(seen)


def test_versions_change_inside_responses(tiny, weights):
    def spans(batch):
        versions, samples = batch.columns["rollout_version"], batch.columns["sample_id"]
        return any(len(np.unique(versions[samples == sample])) > 1 for sample in np.unique(samples))

    assert any(spans(batch) for batch in train(tiny(steps=5), weights))


def test_asynchrony_delays_weights_and_staleness_stays_bounded(tiny, weights):
    plain, late = (list(train(tiny(steps=10, **engine), weights)) for engine in ({}, ASYNC))
    assert lags(plain[5:]).mean() < 2
    assert lags(late[5:]).mean() > lags(plain[5:]).mean() + 3
    assert lags(late).max() <= 2 + 2 + 4
    assert lags(late[5:]).min() >= 2


@pytest.mark.parametrize(
    "engine", [{}, ASYNC | {"enable_prefix_caching": True, "logprobs_mode": "raw_logprobs", "lm_head_dtype": "bfloat16"}]
)
def test_the_split_is_an_identity(tiny, weights, engine):
    batches = list(train(tiny(steps=4, **engine), weights))
    assert max(split_error(batch.columns) for batch in batches) < 1e-5
    assert max(lag_at_same_version(batch.columns) for batch in batches) < 1e-5
    assert (lags(batches) == 0).any()


def test_a_wrong_evaluation_under_the_generators_weights_stops_the_run(tiny, weights, monkeypatch):
    monkeypatch.setattr(Trainer, "same_weights", lambda _self, batch: batch.rollout)
    with pytest.raises(AssertionError, match="step 1: tokens without lag lag by"):
        list(train(tiny(steps=1, logprobs_mode="raw_logprobs"), weights))


def test_same_weights_logprob_is_the_trainer_under_the_version_that_sampled_each_token(tiny, weights, monkeypatch):
    """Each token again, one by one, under the kept weights of its version."""
    seen = []
    step = Trainer.step
    monkeypatch.setattr(Trainer, "step", lambda self, r, **more: (seen.append((self, r)), step(self, r, **more))[1])
    batches = list(train(tiny(steps=4), weights))
    trainer, responses = seen[-1]
    oracle = []
    for response in responses:
        text = torch.from_numpy(np.concatenate([response.request.prompt, response.tokens]))[None]
        for place, version in enumerate(response.versions.tolist()):
            logp, _ = token_logprobs(trainer.history[version], text[:, : PROMPT + place + 1], 0.8)
            oracle.append(float(logp[0, -1]))
    np.testing.assert_allclose(batches[-1].columns["same_weights_logprob"], oracle, atol=3e-5)
    assert len(set(np.concatenate([response.versions for response in responses]).tolist())) > 1


def test_a_float32_engine_without_stale_memory_has_no_discrepancy(tiny, weights):
    engine = {"dtype": "float32", "kv_at_weight_update": "recompute"}
    for batch in train(tiny(steps=4, **engine), weights):
        discrepancy = batch.columns["same_weights_logprob"] - batch.columns["rollout_logprob"]
        assert np.abs(discrepancy).max() < 3e-5


def test_the_queue_gives_the_oldest_groups_and_keeps_what_must_wait(tiny):
    queue = ReadyQueue(tiny(**ASYNC))
    queue.ready = [[] for _ in range(5)]
    assert not queue.has_a_batch()
    queue.ready = [[] for _ in range(6)]
    assert queue.has_a_batch()
    assert queue.is_full()


def test_every_prompt_comes_back_each_time_round(tiny):
    settings = tiny()
    asked = [request for request, _ in zip(requests(settings), range(6 * 4 * 2), strict=False)]
    prompts = [request.prompt_id for request in asked[::4]]
    assert sorted(prompts[:6]) == sorted(prompts[6:]) == list(range(6))
    assert [request.sample_id for request in asked] == list(range(48))


def test_a_padded_batch_masks_exactly_the_sampled_tokens(tiny, weights, monkeypatch):
    kept = []
    monkeypatch.setattr("sample_runs.lab.trainer.assemble", lambda responses: kept.append(assemble(responses)) or kept[-1])
    list(train(tiny(steps=1), weights))
    batch = kept[0]
    assert batch.mask.sum(dim=1).tolist() == [len(response.tokens) for response in batch.responses]
    assert (batch.rollout[~batch.mask] == 0).all()
