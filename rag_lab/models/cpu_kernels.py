"""Linear layers whose weights are laid out for the CPU once, instead of at every call."""

from typing import Any

MAX_PARAMETERS = 1_000_000_000  # the layout is a second copy of the weights, which would not fit for a larger model


def pack_linear_layers(model: Any) -> Any:
    """Let the model's linear layers compute with packed weights wherever no gradient is asked for; returns the model.

    The same products by oneDNN on weights that it has laid out for this CPU, as torch's own compiler freezes them.
    Measured on SmolLM2 with one thread (AMD, AVX512): in float32 reading takes half of the time, since the BLAS that
    torch calls otherwise leaves much of that processor idle; in bfloat16 a written token takes a third less, and the
    results are the same to the bit. Takes the memory of the linear layers once more. Does nothing for a model off the
    CPU or of more than ``MAX_PARAMETERS``, on a processor other than x86, or where torch has no oneDNN. Weights that
    are changed are packed again.
    """
    import platform

    import torch

    packs = hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and torch.backends.mkldnn.is_available()
    if not packs or platform.machine().lower() not in ("x86_64", "amd64"):
        return model
    weights = list(model.parameters())
    if any(w.device.type != "cpu" for w in weights) or sum(w.numel() for w in weights) > MAX_PARAMETERS:
        return model
    for module in model.modules():
        if type(module) is torch.nn.Linear:
            module.forward = _PackedForward(module)
    return model


def is_packed(model: Any) -> bool:
    """Whether any of the model's layers is packed."""
    return any(isinstance(vars(module).get("forward"), _PackedForward) for module in model.modules())


class _PackedForward:
    """A layer's forward pass. Its weights are packed at the first use, so that a copied model packs its own."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._packed: Any = None
        self._of: Any = None  # the weights that are packed, and their version, which counts changes in place

    def __call__(self, x: Any) -> Any:
        import torch

        weight, bias = self._layer.weight, self._layer.bias
        alike = (x.device.type, x.dtype) == (weight.device.type, weight.dtype)
        packable = x.device.type == "cpu" and x.shape[-1] == weight.shape[1] > 0 and _computes(x.dtype)
        if torch.is_grad_enabled() or not alike or not packable:
            return torch.nn.functional.linear(x, weight, bias)
        version = None if weight.is_inference() else weight._version
        if self._of is None or self._of[0] is not weight or self._of[1:] != (version, weight.data_ptr()):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
            self._of = (weight, version, weight.data_ptr())
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")

    def __reduce__(self) -> Any:
        return _PackedForward, (self._layer,)


def _computes(dtype: Any) -> bool:
    """float32, and bfloat16 where oneDNN computes it on this processor."""
    import torch

    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
