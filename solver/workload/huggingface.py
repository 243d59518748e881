"""Reads the content of a Hugging Face ``config.json``.

Each model family has its own reader in :mod:`solver.workload.families`; this module finds the
family. A field that is absent or null takes the default that the family's configuration class in
the Transformers library documents; sizes that decide the model (width, layers, heads, vocabulary)
have to be given.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from solver.errors import UnsupportedModel
from solver.workload.architecture import Architecture
from solver.workload.families import READERS
from solver.workload.fields import Fields

_FIELD = "model.huggingface"


def architecture_from_huggingface(config: Mapping[str, Any], path: str = _FIELD) -> Architecture:
    """The architecture that a ``config.json`` describes.

    Of a model with several towers the text decoder (``text_config``) is read: it is what a
    pipeline of decoder layers trains.

    Args:
        config: The decoded JSON object.
        path: Where the object stands in the request, for error messages.

    Raises:
        BadRequest: A field is missing, of the wrong type, absurd or in contradiction.
        UnsupportedModel: The family is not known.
    """
    fields = Fields(config, path)
    if "text_config" in fields:
        fields = _text_decoder(fields, config)
    family = _family(fields)
    reader = READERS.get(family)
    if reader is None:
        close = get_close_matches(family, READERS, n=3)
        known = ", ".join(sorted(READERS))
        raise UnsupportedModel(
            f"The model family {family[:80]!r} is not known.",
            field=f"{fields.path}.model_type",
            hint=f"Did you mean {' or '.join(close)}?" if close else f"Known families: {known}.",
        )
    return reader(fields)


def _text_decoder(fields: Fields, config: Mapping[str, Any]) -> Fields:
    text = fields.child("text_config")
    # Multimodal configurations state weight tying and their name outside, the sizes inside.
    outer = {
        name: config[name]
        for name in ("tie_word_embeddings", "_name_or_path")
        if config.get(name) is not None and name not in text
    }
    return Fields({**config["text_config"], **outer}, text.path)


def _family(fields: Fields) -> str:
    if "model_type" in fields:
        return fields.text("model_type")
    classes = fields.sequence("architectures") or ()
    for name in classes:
        for family, class_prefix in _CLASS_PREFIXES.items():
            if isinstance(name, str) and name == f"{class_prefix}ForCausalLM":
                return family
    return fields.text("model_type")


_CLASS_PREFIXES = {
    "llama": "Llama",
    "mistral": "Mistral",
    "qwen2": "Qwen2",
    "qwen3": "Qwen3",
    "gemma": "Gemma",
    "gemma2": "Gemma2",
    "gemma3_text": "Gemma3",
    "phi3": "Phi3",
    "gpt_neox": "GPTNeoX",
    "gptj": "GPTJ",
    "opt": "OPT",
    "bloom": "Bloom",
    "falcon": "Falcon",
    "mixtral": "Mixtral",
    "qwen2_moe": "Qwen2Moe",
    "qwen3_moe": "Qwen3Moe",
    "deepseek_v2": "DeepseekV2",
    "deepseek_v3": "DeepseekV3",
    "gpt_oss": "GptOss",
}
