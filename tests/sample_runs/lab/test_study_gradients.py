import pytest

from sample_runs.lab import study_gradients
from sample_runs.lab.study_gradients import COMPARED, fidelity
from sample_runs.lab.study_settings import Sync
from tests.sample_runs.lab.tiny_study import study_of

pytestmark = pytest.mark.usefixtures("easy")


def test_without_lag_and_discrepancy_all_corrections_give_one_gradient(begun):
    found = fidelity(study_of(begun, engine="float32", sync=Sync.ALWAYS), seed=1, parts=2)
    for name in COMPARED:
        assert found[name] == pytest.approx(found["none"], rel=2e-3), name
    assert found["none"]["noise"] > 0
    assert found["ess.lag.sequence"] == 1.0


def test_with_lag_they_differ_and_the_comparison_is_the_same_again(begun):
    study = study_of(begun, learning_rate=0.02)
    study.take_step()
    first, again = (fidelity(study, seed=1, parts=2) for _ in range(2))
    assert first == again
    assert first["step"] == 1
    assert first["ess.lag.sequence"] < 0.9
    assert abs(first["sequence_is"]["cosine"] - first["none"]["cosine"]) > 1e-3
    assert -1 <= first["on_policy"]["cosine"] <= 1


def test_comparing_takes_no_step(begun):
    study = study_of(begun)
    before = study.snapshot()
    fidelity(study, seed=1, parts=1)
    assert all(before[name].equal(value) for name, value in study.weights.items())
    assert study.step == 0


def test_corrections_see_the_generators_texts_and_the_truth_is_of_the_present_weights(begun, monkeypatch):
    study, asked = study_of(begun, learning_rate=0.02), []
    study.take_step()
    decode = study_gradients.decode
    monkeypatch.setattr(study_gradients, "decode", lambda held, engine, *rest: asked.append((held, engine)) or decode(held, engine, *rest))
    fidelity(study, seed=1, parts=2)
    assert [(held is study.held, engine) for held, engine in asked] == [(False, "float32")] * 4 + [(True, "fp8_e4m3")] * 2
    assert all(held["head"].equal(study.weights["head"]) for held, _ in asked[:4])
