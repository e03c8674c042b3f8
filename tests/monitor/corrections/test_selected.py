"""Log-probabilities in chunks: the plain formula, its gradient, and that no second array of the vocabulary's width is held."""

import gc

import pytest
import torch

from monitor.corrections import BatchError, selected_logprobs

ROWS, WIDTH, VOCABULARY, CHOSEN = 11, 5, 17, 4


def _inputs(dtype=torch.float64, seed=0):
    torch.manual_seed(seed)
    hidden, weight = torch.randn(ROWS, WIDTH, dtype=torch.float64), torch.randn(VOCABULARY, WIDTH, dtype=torch.float64)
    ids = torch.randint(0, VOCABULARY, (ROWS, CHOSEN))
    ids[:, 1] = ids[:, 0]  # the sampled token is among the top K as well
    return hidden.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_(), ids


def _plain(logits, ids, temperature):
    return torch.log_softmax(logits / temperature, -1).gather(-1, ids)


@pytest.mark.parametrize("chunk", [1, 4, 11, 1024])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_it_is_the_log_softmax_and_its_gradient(chunk, temperature):
    hidden, weight, ids = _inputs()
    logits = (hidden @ weight.T).detach().requires_grad_()
    expected, found = _plain(logits, ids, temperature), selected_logprobs(logits, ids, temperature=temperature, chunk=chunk)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    upstream = torch.randn(ROWS, CHOSEN, dtype=torch.float64)
    grads = [torch.autograd.grad(value, logits, upstream)[0] for value in (found, expected)]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-13)


@pytest.mark.parametrize("chunk", [1, 4, 1024])
def test_hidden_states_and_a_head_give_the_same_without_logits(chunk):
    hidden, weight, ids = _inputs()
    expected = _plain(hidden @ weight.T, ids, 0.6)
    found = selected_logprobs((hidden, weight), ids, temperature=0.6, chunk=chunk)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    upstream = torch.randn(ROWS, CHOSEN, dtype=torch.float64)
    for one, other in zip(*(torch.autograd.grad(value, (hidden, weight), upstream) for value in (found, expected)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


def test_gradcheck():
    hidden, weight, ids = _inputs()
    logits = (hidden @ weight.T).detach().requires_grad_()
    assert torch.autograd.gradcheck(lambda value: selected_logprobs(value, ids, temperature=0.7, chunk=4), (logits,))
    assert torch.autograd.gradcheck(lambda *head: selected_logprobs(head, ids, temperature=0.7, chunk=4), (hidden, weight))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
def test_half_logits_are_normalised_in_float32(dtype):
    hidden, weight, ids = _inputs(dtype)
    logits = (hidden @ weight.T).detach().requires_grad_()
    found = selected_logprobs(logits, ids, chunk=4)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, _plain(logits.float(), ids, 1.0), rtol=0, atol=1e-6)
    (grad,) = torch.autograd.grad(found.sum(), logits)
    assert grad.dtype == dtype
    grads = torch.autograd.grad(selected_logprobs((hidden, weight), ids, chunk=4).sum(), (hidden, weight))
    assert [part.dtype for part in grads] == [dtype, dtype]


def test_under_autocast_the_head_is_multiplied_in_its_dtype_and_the_gradients_come_back_in_theirs():
    hidden, weight, ids = _inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = selected_logprobs((hidden, weight), ids, chunk=4)
        expected = _plain((hidden @ weight.T).float(), ids, 1.0)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    grads = [torch.autograd.grad(value.sum(), (hidden, weight)) for value in (found, expected)]
    for one, other in zip(*grads, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, rtol=0, atol=0.1)  # the gradient of a logit is rounded to bfloat16 in both


def test_any_leading_shape_will_do():
    logits, ids = torch.randn(3, 4, VOCABULARY), torch.randint(0, VOCABULARY, (3, 4, 2))
    torch.testing.assert_close(selected_logprobs(logits, ids, chunk=5), _plain(logits, ids, 1.0))
    assert selected_logprobs(torch.randn(0, VOCABULARY), torch.zeros(0, 2, dtype=torch.int64)).shape == (0, 2)


def test_a_token_that_cannot_be_has_minus_infinity_and_harms_no_other():
    logits = torch.randn(2, VOCABULARY, dtype=torch.float64)
    logits[:, 3] = -torch.inf
    logits.requires_grad_()
    found = selected_logprobs(logits, torch.tensor([[3, 1], [2, 1]]))
    assert found[0, 0] == -torch.inf
    (grad,) = torch.autograd.grad(found[:, 1].sum(), logits)
    assert grad.isfinite().all()


class _Held:
    """Bytes that a saved graph keeps, by the tensors it was asked to keep."""

    def __init__(self):
        self.kept = {}

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *error):
        self.hooks.__exit__(*error)

    def pack(self, tensor):
        self.kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor


@pytest.mark.parametrize("function", [selected_logprobs, lambda logits, ids: _plain(logits, ids, 1.0)], ids=["chunked", "plain"])
def test_nothing_of_the_width_of_the_vocabulary_is_kept_for_the_gradient(function):
    logits = torch.randn(64, 4096, requires_grad=True)
    with _Held() as held:
        function(logits, torch.zeros(64, 3, dtype=torch.int64))
    held.kept.pop(logits.untyped_storage().data_ptr(), None)  # which the caller holds
    wide = [size for size in held.kept.values() if size >= 64 * 4096 * 4]
    assert bool(wide) == (function is not selected_logprobs)


def test_the_head_keeps_no_logits():
    hidden, weight = torch.randn(64, 8, requires_grad=True), torch.randn(4096, 8, requires_grad=True)
    before = _wide()
    with _Held() as held:
        found = selected_logprobs((hidden, weight), torch.zeros(64, 3, dtype=torch.int64))
    assert sum(held.kept.values()) < 64 * 4096 * 4
    assert _wide() == before
    found.sum().backward()


def test_nothing_wide_hangs_on_the_graph_beside_what_it_saves():
    logits = torch.randn(64, 4096, requires_grad=True)
    before = _wide()
    found = selected_logprobs(logits, torch.zeros(64, 3, dtype=torch.int64))
    assert _wide() == before
    assert before >= 1
    found.sum().backward()


def _wide():
    """How many arrays of the size of the logits Python holds; an attribute of a context is one, what it saves is not."""
    held = [thing.untyped_storage() for thing in gc.get_objects() if type(thing) is torch.Tensor and thing.layout is torch.strided]
    return len({storage.data_ptr() for storage in held if storage.nbytes() >= 64 * 4096 * 4})


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # dynamo's own, about any autograd.Function
def test_it_compiles_to_one_graph():
    torch.compiler.reset()
    hidden, weight, ids = _inputs()
    logits = (hidden @ weight.T).detach().requires_grad_()
    compiled = torch.compile(lambda value: selected_logprobs(value, ids, chunk=4), fullgraph=True, backend="aot_eager")
    grads = [torch.autograd.grad(value.sum(), logits)[0] for value in (compiled(logits), _plain(logits, ids, 1.0))]
    torch.testing.assert_close(*grads, rtol=0, atol=1e-13)


def test_what_does_not_fit_is_refused():
    logits, ids = torch.randn(3, VOCABULARY), torch.zeros(3, 2, dtype=torch.int64)
    for wrong in (ids[:2], ids[0]):
        with pytest.raises(BatchError, match="ids"):
            selected_logprobs(logits, wrong)
    for options in ({"temperature": 0.0}, {"chunk": 0}):
        with pytest.raises(ValueError, match="positive"):
            selected_logprobs(logits, ids, **options)
