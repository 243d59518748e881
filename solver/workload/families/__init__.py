"""One reader per model family: from its configuration's fields to an architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from solver.workload.architecture import Architecture
from solver.workload.families import deepseek, experts, gemma, gpt, llama
from solver.workload.fields import Fields

READERS: Mapping[str, Callable[[Fields], Architecture]] = {
    "llama": llama.read_llama,
    "mistral": llama.read_mistral,
    "ministral": llama.read_mistral,
    "qwen2": llama.read_qwen2,
    "qwen3": llama.read_qwen3,
    "phi3": llama.read_phi3,
    "gemma": gemma.read_gemma,
    "gemma2": gemma.read_gemma2,
    "gemma3": gemma.read_gemma3,
    "gemma3_text": gemma.read_gemma3,
    "gpt2": gpt.read_gpt2,
    "gpt_neox": gpt.read_gpt_neox,
    "gptj": gpt.read_gptj,
    "opt": gpt.read_opt,
    "bloom": gpt.read_bloom,
    "falcon": gpt.read_falcon,
    "mixtral": experts.read_mixtral,
    "qwen2_moe": experts.read_qwen2_moe,
    "qwen3_moe": experts.read_qwen3_moe,
    "gpt_oss": experts.read_gpt_oss,
    "deepseek_v2": deepseek.read_deepseek_v2,
    "deepseek_v3": deepseek.read_deepseek_v3,
    "kimi_k2": deepseek.read_deepseek_v3,
}
"""Readers by ``model_type``."""

__all__ = ["READERS"]
