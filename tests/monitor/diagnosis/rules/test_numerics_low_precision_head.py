"""Is a head that is rounded on one side found by its steps, and nothing else taken for it?"""

import numpy as np
import pytest

from monitor.diagnosis.outcome import Certainty, Finding, Passed, Severity, Skipped
from monitor.diagnosis.rules.numerics_low_precision_head import RULE
from monitor.metrics.frame import metric_frame
from tests.diagnosis_cases import case, run_of
from tests.token_tables import table


def rounded_head(seed=0, *, temperature=0.8, engine=1 / 8, trainer=0.0, noise=0.003, groups=40, samples=6):
    """First tokens of several samples of each prompt; logits of a side are rounded to its step, 0 for none."""
    rng = np.random.default_rng(seed)
    columns = {name: [] for name in ("sample_id", "group_id", "position", "token_id", "rollout_logprob", "same_weights_logprob")}
    for group in range(groups):
        logits = 20 + 2 * rng.normal(size=24)
        sides = [_logp(logits, engine, temperature), _logp(logits + noise * rng.normal(size=24), trainer, temperature)]
        for sample in range(samples):
            token = int(rng.choice(24, p=np.exp(sides[0])))
            row = (group * samples + sample, group, 0, token, sides[0][token], sides[1][token])
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    return {name: np.array(values) for name, values in columns.items()}


def _logp(logits, step, temperature):
    z = (np.round(logits / step) * step if step else logits) / temperature
    return z - np.logaddexp.reduce(z)


def check(tokens, **more):
    return RULE.check(case(tokens=tokens, config={"sampling.temperature": 0.8} | more))


def test_rounded_engine():
    found = check(rounded_head())
    assert isinstance(found, Finding)
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.MEASURED)
    assert "the engine alone: steps of 1/8 nats at temperature 0.8, 100%" in found.what


def test_rounded_trainer_is_said_to_be_the_trainer():
    assert "the trainer alone: steps of 1/4 nats" in check(rounded_head(engine=0.0, trainer=1 / 4)).what


def test_raw_log_probabilities_show_the_step_at_temperature_1():
    found = check(rounded_head(temperature=1.0))
    assert "steps of 1/8 nats at temperature 1," in found.what


def test_both_sides_alike_is_a_note():
    """Field report A40: rounding on both sides to the same grid mostly cancels."""
    found = check(rounded_head(trainer=1 / 8))
    assert found.severity is Severity.NOTE
    assert "both sides alike" in found.what


@pytest.mark.parametrize(("step", "severity"), [(1 / 64, Severity.WARNING), (1 / 256, Severity.NOTE)])
def test_a_fine_step_is_a_note(step, severity):
    assert check(rounded_head(engine=step)).severity is severity


def test_smooth_noise_has_no_step():
    """The nearest neighbour: a coarse body, twenty times noisier, whose logits are not on a grid."""
    assert isinstance(check(rounded_head(engine=0.0, noise=0.1)), Passed)


def test_few_differences_cannot_tell():
    assert isinstance(check(rounded_head(groups=4, samples=3)), Skipped)


def test_without_prompt_ids_it_names_the_column():
    tokens = {name: values for name, values in rounded_head().items() if name != "group_id"}
    found = check(tokens)
    assert isinstance(found, Skipped)
    assert found.record == ("group_id",)


def test_settings_alone_are_a_note():
    found = RULE.check(
        case(
            scalars={"log_ratio.discrepancy.abs_mean": [0.02]},
            config={"engine.lm_head_dtype": "bfloat16", "trainer.lm_head_dtype": "float32"},
        )
    )
    assert (found.severity, found.certainty) == (Severity.NOTE, Certainty.SUSPECTED)


@pytest.mark.parametrize(
    ("sides", "severity"), [(("rollout_logprob",), Severity.WARNING), (("rollout_logprob", "same_weights_logprob"), Severity.NOTE)]
)
def test_stored_as_bfloat16(sides, severity):
    """Field report A43: the log-probabilities themselves come in steps."""
    tokens = rounded_head(engine=0.0)
    for side in sides:
        bits = tokens[side].astype(np.float32).view(np.uint32)
        tokens[side] = ((bits + 0x8000) & 0xFFFF0000).astype(np.uint32).view(np.float32)
    found = check(tokens)
    assert found.severity is severity
    assert "bfloat16 numbers" in found.what


def test_one_repeated_log_probability_is_not_coarse():
    tokens = {"rollout_logprob": np.full(100, -1.0), "same_weights_logprob": np.linspace(-1.1, -0.9, 100), "sample_id": np.arange(100)}
    assert isinstance(check(tokens), Skipped)


def gaps(sd, seed, steps=1):
    """Normal gaps of a given root mean square; field report A39 posts these."""
    rng = np.random.default_rng(seed)
    n = 4000 * steps
    engine = -rng.exponential(size=n)
    rows = {"step": np.repeat(np.arange(1, steps + 1), 4000), "sample_id": np.arange(n) // 20, "position": np.arange(n) % 20}
    return table(**rows, rollout_logprob=engine, same_weights_logprob=engine + sd * rng.normal(size=n))


@pytest.mark.parametrize(("reference", "own"), [(0.0306, 0.0390), (0.0306, 0.0407), (0.0321, 0.0408), (0.0321, 0.0404)])
def test_field_case_r18_a_third_above_the_reference(reference, own):
    references = {"fp32 heads": metric_frame(run_of(tokens=gaps(reference, 1)))}
    found = RULE.check(case(tokens=gaps(own, 2), references=references))
    assert isinstance(found, Finding)
    assert "adds 27 to 33 %" in found.what


def test_field_case_r18_from_the_step_log():
    references = {"fp32 heads": metric_frame(run_of(scalars={"log_ratio.discrepancy.sd": [0.0306]}))}
    found = RULE.check(case(scalars={"log_ratio.discrepancy.sd": [0.0390]}, references=references))
    assert (found.severity, found.certainty) == (Severity.WARNING, Certainty.INDICATED)


@pytest.mark.parametrize("own", [0.0306, 0.0321])
def test_field_case_r18_the_same_heads(own):
    references = {"fp32 heads": metric_frame(run_of(tokens=gaps(0.0306, 1)))}
    assert not isinstance(RULE.check(case(tokens=gaps(own, 2), references=references)), Finding)


def test_several_times_the_reference_is_not_the_head():
    references = {"fp32 heads": metric_frame(run_of(tokens=gaps(0.03, 1)))}
    assert not isinstance(RULE.check(case(tokens=gaps(0.1, 2), references=references)), Finding)


def test_another_policy_is_not_compared():
    """At another temperature the gap is another one, and so is the entropy."""
    scalars = {"log_ratio.discrepancy.sd": [0.0390], "entropy.mean": [1.4]}
    references = {"one": metric_frame(run_of(scalars={"log_ratio.discrepancy.sd": [0.0306], "entropy.mean": [1.0]}))}
    assert not isinstance(RULE.check(case(scalars=scalars, references=references)), Finding)
