"""A Hugging Face config.json: parameters to the last one."""

from __future__ import annotations

import orjson
import pytest

from tests.zerosim.configs.conftest import LLAMA, Read
from zerosim.errors import InputError
from zerosim.scenario import workload_of

GPT2 = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024}
MISTRAL = {
    "model_type": "mistral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "sliding_window": 4096,
    "vocab_size": 32000,
}
QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "sliding_window": 32768,
    "use_sliding_window": False,
    "tie_word_embeddings": True,
    "vocab_size": 151936,
}


def text(record: dict[str, object], **changed: object) -> str:
    return orjson.dumps(record | changed, option=orjson.OPT_INDENT_2).decode()


@pytest.mark.parametrize(
    ("config", "n_params"),
    [
        (text(GPT2, vocab_size=50257), 124_439_808),
        (LLAMA, 6_738_415_616),
        (text(MISTRAL), 7_241_732_096),
        (text(QWEN2), 494_032_768),
    ],
    ids=["gpt2", "llama-2-7b", "mistral-7b-v0.1", "qwen2-0.5b"],
)
def test_parameters_are_those_of_the_published_model(
    config: str, n_params: int, read: Read
) -> None:
    assert workload_of(read(config, model=None).scenario).n_params == n_params


def test_a_model_that_takes_long_sequences_says_how_to_shorten_them(read: Read) -> None:
    published = {"use_mrope": False, "sliding_window": 131072, "max_position_embeddings": 131072}
    found = read(text(QWEN2, **published), model=None)
    origin = next(o.origin for o in found.origins if o.field == "workload.seq")
    assert origin.endswith("max_position_embeddings, its longest: --set seq=N for yours")
    assert found.scenario.workload.seq == 131072


def test_a_sliding_window_shortens_the_sequence(read: Read) -> None:
    found = read(text(MISTRAL), model=None)
    assert found.scenario.workload.seq == 4096
    origin = next(o.origin for o in found.origins if o.field == "workload.seq")
    assert origin == "config.txt line 5: max_position_embeddings, cut to sliding_window"
    with pytest.raises(InputError, match=r"line 9: sliding_window is 4096: .* seq = 8192"):
        read(text(MISTRAL), "seq=8192", model=None)
    assert read(text(QWEN2), model=None).scenario.workload.seq == 32768


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"model_type": "bert"}, "no model family that zerosim knows at config.txt line 2"),
        ({"head_dim": 256}, "line 11: head_dim is 256: zerosim's heads are hidden / heads wide"),
        ({"attention_bias": True}, "line 11: attention_bias is true: zerosim does not model it"),
        ({"quantization_config": {"bits": 4}}, "line 11: quantization_config is .*: zerosim does"),
        ({"hidden_size": "big"}, "line 3: hidden_size is 'big': give a whole number"),
        ({"num_local_experts": 8}, "line 11: num_local_experts: zerosim knows no such key"),
        ({"num_attention_heads": 33}, "workload.heads is 33, hidden is 4096"),
    ],
)
def test_what_a_model_has_that_zerosim_does_not_is_refused(
    changed: dict[str, object], sentence: str, read: Read
) -> None:
    with pytest.raises(InputError, match=sentence):
        workload_of(read(text(MISTRAL, **changed), model=None).scenario)


def test_a_model_without_a_size_is_refused(read: Read) -> None:
    with pytest.raises(InputError, match="says nothing of the model's vocab: give it"):
        read(text(GPT2), model=None)
