"""Packed layers against torch's own on the same weights."""

import copy
import platform

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_lab.models import cpu_kernels, number_format
from rag_lab.models.cpu_kernels import pack_linear_layers
from rag_lab.models.encoder import Encoder

NEEDS_X86 = pytest.mark.skipif(
    platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available(),
    reason="layers are packed on x86 with oneDNN only",
)


def is_packed(layer: torch.nn.Linear) -> bool:
    return "forward" in vars(layer)


@NEEDS_X86
@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.lists(st.integers(1, 9), max_size=2),
    st.booleans(),
    st.sampled_from([torch.float32, torch.bfloat16]),
)
@settings(max_examples=40, deadline=None)
def test_packed_is_the_same_product(
    inputs: int, outputs: int, shape: list[int], bias: bool, dtype: torch.dtype
) -> None:
    layer = torch.nn.Linear(inputs, outputs, bias=bias).to(dtype)
    x = torch.randn(*shape, inputs).to(dtype)
    expected = layer(x)
    pack_linear_layers(layer)
    assert is_packed(layer)
    with torch.inference_mode():
        got = layer(x)
    assert got.shape == expected.shape
    assert got.dtype == dtype
    # float32 sums in another order; bfloat16 has 8 bits, and what is rounded may fall to either side.
    torch.testing.assert_close(got, expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-4, atol=1e-2)


@NEEDS_X86
def test_gradients_flow_and_other_types_compute_as_before() -> None:
    layer = pack_linear_layers(torch.nn.Linear(3, 2))
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.weight.grad.tolist() == [[1.0] * 3] * 2  # the derivative of a sum of w · 1
    layer = layer.double()
    with torch.inference_mode():
        x = torch.ones(1, 3, dtype=torch.float64)
        torch.testing.assert_close(layer(x), x @ layer.weight.T + layer.bias)


@NEEDS_X86
@torch.inference_mode()
def test_weights_that_are_changed_are_packed_again() -> None:
    with torch.inference_mode(False):
        layer = pack_linear_layers(torch.nn.Linear(3, 2, bias=False))
    x = torch.ones(3)
    layer(x)
    with torch.inference_mode(False), torch.no_grad():
        layer.weight.fill_(2.0)
    assert layer(x).tolist() == [6.0, 6.0]  # 3 · 2
    with torch.inference_mode(False):
        layer.weight = torch.nn.Parameter(torch.ones(2, 3))
    assert layer(x).tolist() == [3.0, 3.0]


@NEEDS_X86
def test_a_wrong_width_is_told_in_torchs_words() -> None:
    layer = pack_linear_layers(torch.nn.Linear(3, 2))
    with torch.inference_mode(), pytest.raises(RuntimeError, match="shapes"):
        layer(torch.ones(1, 4))


@NEEDS_X86
def test_a_copy_is_packed_too_and_a_state_dict_is_whole() -> None:
    layer = pack_linear_layers(torch.nn.Linear(3, 2))
    assert set(layer.state_dict()) == {"weight", "bias"}
    with torch.inference_mode():
        torch.testing.assert_close(copy.deepcopy(layer)(torch.ones(3)), layer(torch.ones(3)))


@pytest.mark.parametrize(
    "reason", ["too large", "another processor", "no oneDNN", "a torch without the operation", "off the CPU"]
)
def test_a_model_that_cannot_be_packed_stays_as_it_is(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = torch.nn.Linear(3, 2)
    if reason == "too large":
        monkeypatch.setattr(cpu_kernels, "MAX_PARAMETERS", 7)  # 3 · 2 weights and 2 biases are 8
    elif reason == "another processor":
        monkeypatch.setattr(platform, "machine", lambda: "arm64")
    elif reason == "no oneDNN":
        monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    elif reason == "a torch without the operation":
        monkeypatch.setattr(torch.ops, "mkldnn", object())
    else:
        layer = layer.to("meta")
    assert pack_linear_layers(layer) is layer
    assert not is_packed(layer)


@NEEDS_X86
def test_the_bundled_encoder_is_packed_where_that_is_quicker_and_its_layers_keep_their_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packed_wins = {job: {"float32": 100.0, "float32 packed": 200.0} for job in number_format.SHAPES}
    monkeypatch.setattr(number_format, "measured", lambda: packed_wins)
    encoder = Encoder.load("minilm", dtype="float32", device="cpu")
    layers = [m for m in encoder.model.modules() if type(m) is torch.nn.Linear]
    # Six layers of query, key, value, output and two feed-forward layers; the pooler is the last one.
    assert len(layers) == 6 * 6 + 1
    assert all(is_packed(layer) and layer.weight.numel() for layer in layers)
