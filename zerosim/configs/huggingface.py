"""A Hugging Face config.json: GPT-2, Llama, Mistral and Qwen2 as the workload's sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from zerosim.configs.document import Document, Place
from zerosim.configs.draft import Draft, Leaf, Rule, checked, elsewhere, into, only, quiet, read
from zerosim.errors import ScenarioError, UnknownNameError

_LLAMA: Final = ("llama", "mistral", "qwen2")
_LONG: Final = 8192
"""Few train on longer sequences than this, though many models take them."""
FAMILIES: Final = ("gpt2", *_LLAMA)
_QUIET: Final = (
    *("_name_or_path", "architectures", "auto_map", "bos_token_id", "eos_token_id", "pad_token_id"),
    *("unk_token_id", "torch_dtype", "dtype", "transformers_version", "initializer_range"),
    *("use_cache", "rope_theta", "rope_scaling", "rope_parameters", "rms_norm_eps"),
    *("attention_dropout", "attn_pdrop", "embd_pdrop", "resid_pdrop", "layer_norm_epsilon"),
    *("summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type"),
    *("summary_use_proj", "task_specific_params", "id2label", "label2id", "output_hidden_states"),
    *("output_attentions", "return_dict", "problem_type", "finetuning_task", "scale_attn_weights"),
    *("scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "n_ctx", "max_window_layers"),
    *("max_length", "torchscript", "chunk_size_feed_forward", "is_decoder", "use_bfloat16"),
    *("activation_function", "hidden_act", "attn_implementation", "_attn_implementation"),
    *("layer_types", "_commit_hash", "tokenizer_class", "prefix", "name_or_path", "use_mrope"),
    *("is_llama_config", "rope_interleaved", "transformers.js_config"),
    *("unsloth_version", "unsloth_fixed"),
)


def is_model(tree: Mapping[str, Any]) -> bool:
    """Whether a file describes a model."""
    return "model_type" in tree or "architectures" in tree


def read_model(document: Document, draft: Draft) -> None:
    """Read a config.json into the workload. Raises ScenarioError, UnknownNameError."""
    family = document.tree.get("model_type")
    place = document.place(("model_type",))
    if family not in FAMILIES:
        raise UnknownNameError(
            f"model family that zerosim knows at {place}:", str(family), FAMILIES
        )
    for name in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "seq", "record", "sizes"):
        draft.record.get("workload", {}).pop(name, None)
        draft.origins.pop(f"workload.{name}", None)
    default = f"default of transformers for {family}"
    draft.put("workload.model", "gpt" if family == "gpt2" else "llama", place)
    draft.put("workload.tied", family == "gpt2", default)
    if family == "qwen2":
        draft.put("workload.qkv_bias", value=True, origin=place)
    read(document, draft, _gpt2() if family == "gpt2" else _llama(document, draft, str(family)))
    for name in ("layers", "hidden", "heads", "vocab"):
        if draft.get(f"workload.{name}") is None:
            raise ScenarioError(f"{document.name}: says nothing of the model's {name}: give it")


def _gpt2() -> dict[str, Rule]:
    return {
        **dict.fromkeys(_QUIET, quiet),
        "model_type": elsewhere,
        "n_layer": into("workload.layers"),
        "n_embd": into("workload.hidden"),
        "n_head": into("workload.heads"),
        "n_positions": into("workload.seq"),
        "n_inner": _or_null("workload.ffn"),
        "vocab_size": into("workload.vocab"),
        "tie_word_embeddings": into("workload.tied", bool),
        "add_cross_attention": only(False),
        "quantization_config": only(None),
    }


def _llama(document: Document, draft: Draft, family: str) -> dict[str, Rule]:
    tree = document.tree
    windowed = family == "mistral" or tree.get("use_sliding_window") is True
    heads, hidden = tree.get("num_attention_heads"), tree.get("hidden_size")
    whole = isinstance(heads, int) and heads > 0 and isinstance(hidden, int)
    width = hidden // heads if whole and heads and hidden else None
    return {
        **dict.fromkeys(_QUIET, quiet),
        "model_type": elsewhere,
        "num_hidden_layers": into("workload.layers"),
        "hidden_size": into("workload.hidden"),
        "num_attention_heads": into("workload.heads"),
        "num_key_value_heads": _or_null("workload.kv_heads"),
        "intermediate_size": into("workload.ffn"),
        "vocab_size": into("workload.vocab"),
        "max_position_embeddings": _positions(tree, draft, windowed=windowed),
        "tie_word_embeddings": into("workload.tied", bool),
        "head_dim": only(None, width, why="zerosim's heads are hidden / heads wide"),
        "attention_bias": only(False),
        "mlp_bias": only(False),
        "pretraining_tp": only(1),
        "sliding_window": _window if windowed else quiet,
        "use_sliding_window": quiet,
        "quantization_config": only(None),
    }


def _or_null(where: str) -> Rule:
    def rule(leaf: Leaf) -> None:
        if leaf.value is None:
            quiet(leaf)
        else:
            leaf.draft.put(where, checked(leaf), leaf.place)

    return rule


def _positions(tree: Mapping[str, Any], draft: Draft, *, windowed: bool) -> Rule:
    """The longest sequence, or the window of a sliding attention if that is shorter."""
    window = tree.get("sliding_window") if windowed else None

    def rule(leaf: Leaf) -> None:
        longest = checked(leaf)
        if isinstance(window, int) and 0 < window < longest:
            place = Place(
                leaf.place.file, leaf.place.line, f"{leaf.place.key}, cut to sliding_window"
            )
            draft.put("workload.seq", window, place)
        else:
            hint = ", its longest: --set seq=N for yours" if longest > _LONG else ""
            place = Place(leaf.place.file, leaf.place.line, f"{leaf.place.key}{hint}")
            draft.put("workload.seq", longest, place)

    return rule


def _window(leaf: Leaf) -> None:
    asked = leaf.draft.number_asked("seq")
    if isinstance(leaf.value, int) and asked is not None and asked > leaf.value:
        raise leaf.wrong(
            f"zerosim does not model sliding attention, which seq = {asked} would use: "
            f"set seq to at most {leaf.value}"
        )
    quiet(leaf)
