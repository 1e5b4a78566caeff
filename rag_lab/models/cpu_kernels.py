"""Linear layers whose weights are laid out for the CPU once, instead of at every call."""

from typing import Any

MAX_PARAMETERS = 1_000_000_000  # packed weights are a second copy, which would not fit for a larger model


def pack_linear_layers(model: Any) -> Any:
    """Let the model's linear layers compute with packed weights when no gradient is needed; returns the model.

    oneDNN computes the same products on weights that it has laid out for this CPU, as torch's compiler does when it
    freezes a model. ``data/results/kernel_ablation.json`` has the gains. Takes the memory of the linear layers once
    more. Does nothing if the model is not on the CPU or has more than ``MAX_PARAMETERS``, if the processor is not
    x86, or if torch has no oneDNN. Changed weights are packed again.
    """
    import torch

    weights = list(model.parameters())
    on_cpu = all(weight.device.type == "cpu" for weight in weights)
    fits = sum(weight.numel() for weight in weights) <= MAX_PARAMETERS
    if can_pack() and on_cpu and fits:
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                module.forward = _PackedForward(module)
    return model


def can_pack() -> bool:
    """Whether this is an x86 processor and torch has oneDNN's packed layers."""
    import platform

    import torch

    packs = hasattr(torch.ops.mkldnn, "_reorder_linear_weight") and torch.backends.mkldnn.is_available()
    return packs and platform.machine().lower() in ("x86_64", "amd64")


def is_packed(model: Any) -> bool:
    """Whether any of the model's layers is packed."""
    return any(isinstance(vars(module).get("forward"), _PackedForward) for module in model.modules())


class _PackedForward:
    """A layer's forward pass. The weights are packed at the first use, so a copied model packs its own."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._packed: Any = None
        self._source: Any = None  # the packed weights, their version (which counts changes in place) and address

    def __call__(self, x: Any) -> Any:
        import torch

        weight, bias = self._layer.weight, self._layer.bias
        same_kind = (x.device.type, x.dtype) == (weight.device.type, weight.dtype)
        packable = x.device.type == "cpu" and x.shape[-1] == weight.shape[1] > 0 and _supports(x.dtype)
        if torch.is_grad_enabled() or not same_kind or not packable:
            return torch.nn.functional.linear(x, weight, bias)
        version = None if weight.is_inference() else weight._version
        if self._source is None or self._source[0] is not weight or self._source[1:] != (version, weight.data_ptr()):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), None)
            self._source = (weight, version, weight.data_ptr())
        return torch.ops.mkldnn._linear_pointwise(x, self._packed, bias, "none", [], "")

    def __reduce__(self) -> Any:
        return _PackedForward, (self._layer,)


def _supports(dtype: Any) -> bool:
    """float32, and bfloat16 if oneDNN computes it on this processor."""
    import torch

    return dtype == torch.float32 or (dtype == torch.bfloat16 and torch.ops.mkldnn._is_mkldnn_bf16_supported())
