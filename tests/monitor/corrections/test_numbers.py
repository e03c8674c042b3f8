"""Dtypes, autocast, compilation, and numbers at the end of their range."""

import pytest
import torch

from monitor.corrections import Batch, Support
from monitor.corrections._weights import MAX_LOG_RATIO, limit
from tests.correction_batches import CENTRED, MEMBERS, Case

# A rounding of the dtype, times the few log-probabilities of order 10 that enter a loss.
TOLERANCE = {torch.float32: 1e-5, torch.float16: 2e-2, torch.bfloat16: 2e-1}


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_the_loss_has_the_dtype_of_the_log_probabilities_and_the_weights_are_float64(name, dtype):
    """Against float64 on the very same rounded inputs: only the last rounding is the dtype's."""
    case = Case(1, top=None if name in CENTRED else 4)
    case.dtype = dtype
    rounded = case.batch()
    estimate = MEMBERS[name](rounded)
    assert estimate.loss.dtype == dtype
    wide = MEMBERS[name](_cast(rounded, torch.float64))
    torch.testing.assert_close(estimate.diagnostics, wide.diagnostics, rtol=1e-12, atol=1e-12, equal_nan=True)
    torch.testing.assert_close(estimate.loss, wide.loss.to(dtype), rtol=0, atol=0)
    assert all(value.dtype == torch.float64 and not value.requires_grad for value in estimate.diagnostics.values())
    exact = MEMBERS["uncorrected"](Case(1).batch()).loss
    if name == "uncorrected":
        torch.testing.assert_close(estimate.loss.double(), exact, rtol=0, atol=TOLERANCE[dtype])


def _cast(batch, dtype):
    support = batch.support
    columns = {key: getattr(batch, key).to(dtype) for key in ("current", "advantages", "rollout", "same_weights", "old")}
    wide = Support(
        engine=support.engine.to(dtype),
        current=support.current.to(dtype),
        same_weights=support.same_weights.to(dtype),
        complete=support.complete,
    )
    return Batch(mask=batch.mask, support=wide, **columns)


@pytest.mark.parametrize("name", MEMBERS)
def test_columns_may_differ_in_dtype(name):
    case = Case(2)
    batch = case.batch()
    mixed = case.batch(rollout=batch.rollout.float(), old=batch.old.bfloat16(), advantages=case.advantages.half())
    assert MEMBERS[name](mixed).loss.dtype == torch.float64


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_lowers_no_precision(name, dtype):
    case = Case(3)
    case.dtype = torch.float32
    expected = MEMBERS[name](case.batch())
    with torch.autocast("cpu", dtype=dtype):
        found = MEMBERS[name](case.batch())
    torch.testing.assert_close(found.loss, expected.loss, rtol=0, atol=0)
    torch.testing.assert_close(found.diagnostics, expected.diagnostics, rtol=0, atol=0, equal_nan=True)


# One of each class and of each way through it; compiling is slow.
ONE_OF_EACH = (
    "uncorrected",
    "ppo",
    "gspo",
    "cispo",
    "sequence_tis_around_ppo",
    "sequence_mean_mis",
    "icepop",
    "score_centring_tis",
    "token_dlc",
)
COMPILED = [(name, False) for name in ONE_OF_EACH] + [("sequence_dlc", False), ("sequence_dlc", True), ("sequence_tis", True)]


@pytest.mark.parametrize(("name", "packed"), COMPILED)
def test_it_compiles_to_one_graph(name, packed):
    """`fullgraph` fails at any break: a read of a value on the host, or a shape that depends on one."""
    torch.compiler.reset()
    case = Case(4, sequences=4, tokens=3, vocabulary=5, top=3)
    batch = case.batch()
    columns = [getattr(batch, key).detach() for key in ("current", "rollout", "same_weights", "old", "mask", "advantages")]
    wide = [getattr(batch.support, key).detach() for key in ("engine", "current", "same_weights")]
    offsets = torch.tensor([0, 3, 3, 7, 12]) if packed else None
    if packed:
        columns = [column.reshape(12) if column.ndim > 1 else column for column in columns]
        wide = [column.reshape(12, 3) for column in wide]

    def run(current, rollout, same, old, mask, advantages, engine, chosen, chosen_same):  # noqa: PLR0917
        support = Support(engine=engine, current=chosen, same_weights=chosen_same)
        sides = {"current": current, "rollout": rollout, "same_weights": same, "old": old}
        return MEMBERS[name](Batch(mask=mask, advantages=advantages, offsets=offsets, support=support, **sides))

    results = []
    for function in (run, torch.compile(run, fullgraph=True, backend="aot_eager" if name == "sequence_dlc" else "eager")):
        columns[0].requires_grad_().grad = None
        wide[1].requires_grad_().grad = None
        estimate = function(*columns, *wide)
        estimate.loss.sum().backward()
        results.append((estimate.loss.detach(), columns[0].grad, wide[1].grad, estimate.diagnostics))
    torch.testing.assert_close(*results, rtol=1e-13, atol=1e-14, equal_nan=True)


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("size", [12.0, 80.0, 200.0, 1e4])
def test_no_log_ratio_makes_a_gradient_that_is_not_a_number(name, dtype, size):
    """Both signs, both ratios, sums far beyond exp's range."""
    case = Case(5)
    case.dtype = dtype
    batch = case.batch()
    far = torch.where(torch.arange(case.mask.shape[1]) % 2 == 0, size, -size).to(dtype)
    leaf = batch.current.detach().requires_grad_()
    found = MEMBERS[name](case.batch(current=leaf, rollout=batch.rollout + far, same_weights=batch.same_weights - far, old=batch.old - far))
    if dtype != torch.float16:  # the value of a loss may overflow there, its gradient not
        assert found.loss.isfinite().all()
    grad = torch.autograd.grad(found.loss.sum(), leaf)[0]
    assert grad.isfinite().all()
    own = {key: value for key, value in found.diagnostics.items() if not key.startswith("ratio.")}  # a mean ratio may be infinite
    if own.get("correction.masked") == 1:
        assert own.pop("correction.heaviest_sequence").isnan()  # no weight is left
    assert all(value.isfinite() for value in own.values()), own


def test_log_weights_beyond_the_range_are_held_and_counted():
    one = torch.zeros(1, 3, dtype=torch.float64)
    batch = Batch(
        current=one.clone().requires_grad_(),
        rollout=torch.tensor([[-81.0, -79.0, 90.0]], dtype=torch.float64),
        advantages=torch.ones(1),
        mask=torch.ones(1, 3, dtype=torch.bool),
    )
    tis = type(MEMBERS["token_tis"])(cap=1e40)
    found = tis(batch)
    assert found.diagnostics["correction.clamped"] == 2
    (weights,) = torch.autograd.grad(-found.loss.sum(), batch.current)
    expected = torch.tensor([[MAX_LOG_RATIO, 79.0, -MAX_LOG_RATIO]], dtype=torch.float64).exp()
    torch.testing.assert_close(weights, expected, rtol=1e-14, atol=0)
    assert found.diagnostics["correction.truncated"] == 0


def test_the_range_is_that_of_the_dtype():
    assert limit(torch.float64) == limit(torch.float32) == limit(torch.bfloat16) == MAX_LOG_RATIO
    assert torch.tensor(limit(torch.float16)).exp() < torch.finfo(torch.float16).max / 2


NEEDS = {
    "uncorrected": ["current"],
    "ppo": ["current", "old"],
    "gspo": ["current", "old"],
    "cispo": ["current", "old"],
    "token_tis": ["current", "rollout"],
    "sequence_tis": ["current", "rollout"],
    "lag_tis": ["current", "same_weights"],
    "discrepancy_tis": ["current", "same_weights", "rollout"],
    "token_tis_around_ppo": ["current", "old", "rollout"],
    "sequence_mis": ["current", "rollout"],
    "icepop": ["current", "old", "rollout"],
    "score_centring": ["current", "engine", "chosen"],
    "sequence_dlc": ["current", "same_weights", "engine", "chosen", "chosen_same"],
    "token_dlc": ["current", "same_weights", "engine", "chosen", "chosen_same"],
}


INSIDE = {"engine": "engine", "chosen": "current", "chosen_same": "same_weights"}  # -inf there is a probability of 0: test_centring.py
SPOILT = [
    (name, column, value)
    for name, columns in NEEDS.items()
    for column in [*columns, "advantages"]
    for value in (torch.nan, torch.inf, -torch.inf)
    if value != -torch.inf or column not in INSIDE
]


@pytest.mark.parametrize(("name", "column", "value"), SPOILT)
def test_a_token_with_what_is_no_number_is_left_out_and_counted(name, column, value):
    """As if it were masked."""
    case, place = Case(6), (2, 3)
    spoilt = _spoil(case, column, place, value)
    estimate = MEMBERS[name](spoilt)
    assert estimate.diagnostics["correction.nonfinite"] == 1
    assert estimate.loss[place] == 0
    masked = case.mask.clone()
    masked[place] = False
    expected = MEMBERS[name](_spoil(case, column, place, value, mask=masked))
    assert expected.diagnostics["correction.nonfinite"] == 0
    torch.testing.assert_close(estimate.loss, expected.loss, rtol=0, atol=0)
    leaves = [spoilt.current, spoilt.support.current]
    grads = torch.autograd.grad(estimate.loss.sum(), leaves, allow_unused=True)
    assert all(grad is None or grad.isfinite().all() for grad in grads)


def _spoil(case, column, place, value, **changes):
    batch = case.batch()
    support = {key: getattr(batch.support, key).detach().clone() for key in INSIDE.values()}
    columns = {key: getattr(batch, key).detach().clone() for key in ("current", "rollout", "same_weights", "old")}
    columns["advantages"] = case.advantages[:, None].expand(case.mask.shape).clone()
    if column in INSIDE:
        support[INSIDE[column]][(*place, 1)] = value
    else:
        columns[column][place] = value
    support["current"].requires_grad_()
    columns["current"].requires_grad_()
    return Batch(**{"mask": case.mask, "support": Support(**support, complete=True)} | columns | changes)


@pytest.mark.parametrize(("name", "column"), [("uncorrected", "rollout"), ("ppo", "same_weights"), ("token_tis", "old"),
    ("token_tis", "engine"), ("score_centring", "chosen_same"), ("lag_tis", "rollout"), ("sequence_dlc", "rollout")])  # fmt: skip
def test_what_is_not_needed_may_be_no_number(name, column):
    case = Case(7)
    estimate = MEMBERS[name](_spoil(case, column, (2, 3), torch.nan))
    assert estimate.diagnostics["correction.nonfinite"] == 0
    torch.testing.assert_close(estimate.loss, MEMBERS[name](case.batch()).loss, rtol=0, atol=1e-15)
