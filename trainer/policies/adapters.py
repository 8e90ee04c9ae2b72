"""Low-rank adapters (Hu et al. 2021, "LoRA") of a model's linear layers: added, kept, taken up again, merged.

An adapter is a folder in peft's own form (adapter_config.json, adapter_model.safetensors), which peft, vLLM and
SGLang load on top of the model that it was tuned from.
"""

from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, TaskType, get_peft_model

from trainer.config.supervised import LoraSection
from trainer.errors import ConfigurationError
from trainer.policies import models

WEIGHTS = "adapter_model.safetensors"


def with_adapters(model: Any, section: LoraSection, *, seed: int) -> Any:
    """The model with new adapters on every linear layer but the head; only they are trained. They add nothing at
    first. The same seed draws the same ones.
    """
    # peft's types know whole numbers for alpha only; it is divided by the rank.
    asked: dict[str, Any] = {"r": section.rank, "lora_alpha": section.alpha, "lora_dropout": section.dropout}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return get_peft_model(model, LoraConfig(**asked, target_modules="all-linear", task_type=TaskType.CAUSAL_LM))


def load_adapters(model: Any, folder: Path, *, trained: bool = False) -> Any:
    """The model with the adapters of a folder, in float32. Raises ConfigurationError where there are none for it."""
    try:
        return PeftModel.from_pretrained(model, str(folder), is_trainable=trained, local_files_only=True)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"There are no adapters for this model in {folder}: {error}",
            "Name a folder that a tuning with sft.method=lora has kept, and the model that it was tuned from.",
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
