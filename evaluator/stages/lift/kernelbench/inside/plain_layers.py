"""Modules of `torch.nn` without parameters: what each is made with, as PyTorch 2.9 has it. They only hold that."""

import ast
import inspect
from typing import Any, Final

_POOLED: Final = "kernel_size stride=None padding=0"
_REDUCED: Final = "size_average=None reduce=None reduction='mean'"
_ARGUMENTS: Final = {
    "ReLU ReLU6 SELU SiLU Mish Hardsigmoid Hardswish": "inplace=False",
    "ELU CELU": "alpha=1.0 inplace=False",
    "Sigmoid Tanh Softsign Tanhshrink LogSigmoid": "",
    "Softmax LogSoftmax Softmin": "dim=None",
    "Dropout Dropout1d Dropout2d Dropout3d": "p=0.5 inplace=False",
    "LeakyReLU": "negative_slope=0.01 inplace=False",
    "GELU": "approximate='none'",
    "GLU": "dim=-1",
    "Softplus": "beta=1.0 threshold=20.0",
    "Softshrink Hardshrink": "lambd=0.5",
    "Threshold": "threshold value inplace=False",
    "Hardtanh": "min_val=-1.0 max_val=1.0 inplace=False min_value=None max_value=None",
    "MaxPool1d MaxPool2d MaxPool3d": f"{_POOLED} dilation=1 return_indices=False ceil_mode=False",
    "AvgPool1d": f"{_POOLED} ceil_mode=False count_include_pad=True",
    "AvgPool2d AvgPool3d": f"{_POOLED} ceil_mode=False count_include_pad=True divisor_override=None",
    "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d": "output_size",
    "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d": "output_size return_indices=False",
    "Flatten": "start_dim=1 end_dim=-1",
    "Unflatten": "dim unflattened_size",
    "Upsample": "size=None scale_factor=None mode='nearest' align_corners=None recompute_scale_factor=None",
    "PixelShuffle": "upscale_factor",
    "ZeroPad2d": "padding",
    "CosineSimilarity": "dim=1 eps=1e-8",
    "MSELoss L1Loss": _REDUCED,
    "SmoothL1Loss": f"{_REDUCED} beta=1.0",
    "HuberLoss": "reduction='mean' delta=1.0",
    "HingeEmbeddingLoss": f"margin=1.0 {_REDUCED}",
    "KLDivLoss": f"{_REDUCED} log_target=False",
    "CrossEntropyLoss": (
        "weight=None size_average=None ignore_index=-100 reduce=None reduction='mean' label_smoothing=0.0"
    ),
    "TripletMarginLoss": f"margin=1.0 p=2.0 eps=1e-6 swap=False {_REDUCED}",
}


def _parameter(text: str) -> inspect.Parameter:
    name, _, default = text.partition("=")
    value = ast.literal_eval(default) if default else inspect.Parameter.empty
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)


MADE_WITH: Final = {
    name: inspect.Signature([_parameter(one) for one in arguments.split()])
    for names, arguments in _ARGUMENTS.items()
    for name in names.split()
}


def attributes_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """What such a module is made with, by name. Raises TypeError where PyTorch's cannot be made so."""
    given = MADE_WITH[name].bind(*args, **kwargs)
    given.apply_defaults()
    held = dict(given.arguments)
    if "stride" in held and held["stride"] is None:
        held["stride"] = held["kernel_size"]
    return held
