"""Low-rank adapters (Hu et al. 2021, "LoRA") of a model's linear layers: added, kept, taken up again, merged; and the
models in 4 bits that they are tuned over (Dettmers et al. 2023, "QLoRA").

An adapter is a folder in peft's own form (adapter_config.json, adapter_model.safetensors), which peft, vLLM and
SGLang load on top of the model that it was tuned from.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import BitsAndBytesConfig

from trainer.config.supervised import LoraSection
from trainer.errors import ConfigurationError
from trainer.policies import models
from trainer.policies.bitsandbytes_import import import_bitsandbytes

WEIGHTS = "adapter_model.safetensors"


def with_adapters(model: Any, section: LoraSection, *, seed: int) -> Any:
    """The model with new adapters on every linear layer but the head; only they are trained. They add nothing at
    first. The same seed draws the same ones.
    """
    # It takes a second; most of what imports this module tunes no adapter.
    import_bitsandbytes()
    from peft import LoraConfig, TaskType, get_peft_model

    # peft's types know whole numbers for alpha only; it is divided by the rank.
    asked: dict[str, Any] = {"r": section.rank, "lora_alpha": section.alpha, "lora_dropout": section.dropout}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, LoraConfig(**asked, target_modules="all-linear", task_type=TaskType.CAUSAL_LM))


def refuse_without_quantisation(device: str) -> None:
    """Raises ConfigurationError where bitsandbytes is missing, or cannot hold weights in 4 bits on this device."""
    otherwise = "set sft.method to lora."
    try:
        # Only where it is wanted: it is no part of what the trainer needs.
        from bitsandbytes import functional
    except ImportError as error:
        raise ConfigurationError(
            "sft.method is qlora, and the package `bitsandbytes`, which holds weights in 4 bits, is not installed.",
            f"pip install 'assay[qlora]', or {otherwise}",
        ) from error
    try:
        packed, state = functional.quantize_4bit(torch.ones(64, device=device), quant_type="nf4")
        functional.dequantize_4bit(packed, state)
    except (AssertionError, AttributeError, RuntimeError, ValueError) as error:
        # torch asserts that there is the device; bitsandbytes lacks the operation, or the library that has it.
        raise ConfigurationError(
            f"sft.method is qlora, and bitsandbytes cannot hold weights in 4 bits on this {device}: {error}",
            f"Take a machine that it knows, or {otherwise}",
        ) from error


def load_quantised(folder: Path, device: str) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, on the device: linear layers but the head in NF4 with their constants
    quantised too, the rest in float32 on a CPU and in bfloat16 on a GPU, in which products are reckoned. Raises
    ConfigurationError where there is no model, or as `refuse_without_quantisation`.
    """
    refuse_without_quantisation(device)
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    return models.load_model(
        folder,
        dtype=dtype,
        device_map={"": device},
        quantization_config=BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        ),
    )


def load_adapters(model: Any, folder: Path, *, trained: bool = False) -> Any:
    """The model with the adapters of a folder, in float32. Raises ConfigurationError where there are none for it."""
    import_bitsandbytes()
    from peft import PeftModel

    try:
        return PeftModel.from_pretrained(model, str(folder), is_trainable=trained, local_files_only=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"There are no adapters for this model in {folder}: {error}",
            "Name a folder that a tuning of adapters (sft.method) has kept, and the model that it was tuned from.",
        ) from error


@torch.no_grad()
def keep_adapters(model: Any, folder: Path) -> None:
    """Write the adapters in bfloat16, and round those of `model` to that too: what is tuned further is what is kept.

    So an adapter takes half as much, and a tuning that goes on from a folder equals one that was never stopped.
    """
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.copy_(parameter.bfloat16())
    state = {name: value.bfloat16() for name, value in model.state_dict().items() if "lora_" in name}
    model.save_pretrained(str(folder), state_dict=state)
    # peft writes a card about itself, with the path that the model was loaded from.
    (folder / "README.md").unlink(missing_ok=True)


def merge(start: Path, adapters: Path, into: Path) -> None:
    """Write the model of the folder `start` with adapters added to its weights, as a Hugging Face folder in float32
    that needs no peft. Raises ConfigurationError where one of the two is missing.
    """
    model, tokenizer = models.load_model(start)
    models.save(into, load_adapters(model, adapters).merge_and_unload(), tokenizer)
