"""Language models by configs that are off, asked for steps, serving, training and plans."""

from __future__ import annotations

import json
import random
from typing import Any

import yaml

from fuzz import odd

_Dice = random.Random

DENSE = {
    "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 3, "hidden_size": 256, "num_attention_heads": 8,
    "num_key_value_heads": 2, "head_dim": 32, "intermediate_size": 512, "vocab_size": 1000,
    "torch_dtype": "bfloat16", "tie_word_embeddings": False, "quantization_config": None,
}  # fmt: skip
_EXPERTS = {
    **DENSE, "architectures": ["Qwen3MoeForCausalLM"], "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "mlp_only_layers": [],
}  # fmt: skip
_LATENT = {
    **DENSE, "architectures": ["DeepseekV3ForCausalLM"], "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "n_shared_experts": 1, "first_k_dense_replace": 1, "q_lora_rank": 64,
    "kv_lora_rank": 64, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32,
}  # fmt: skip
_WHOLE = (DENSE, _EXPERTS, _LATENT)
_NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "8", "64", "1e12", "1000000000000", "9" * 30, "nan", "inf", "-inf", "1e999", "0.5",
    "-0.0", "1e-300", "true", "", "x",
)  # fmt: skip
LLM_PLAN = {
    "llm": {
        "config": "config.json", "input_tokens": 64, "output_tokens": 16, "requests_per_s": 2, "spread": 0.1,
        "dtypes": ["bf16"],
    },
    "objective": {"ttft_ms": 500, "tpot_ms": 50, "quantile": 0.9},
    "fleet": {"products": ["Atlas 800I A2"], "tensor_parallel": [1, 2], "max_sequences": [8]},
    "simulation": {"requests": 50},
}  # fmt: skip


def _config(dice: _Dice) -> bytes:
    content: dict[str, Any] = dict(dice.choice(_WHOLE))
    for _ in range(dice.choice((0, 0, 0, 1, 1, 2))):
        key = dice.choice([*content, "text_config", "quantization_config", "quantize", "dtype"])
        act = dice.randrange(10)
        if act == 0:
            content.pop(key, None)
        elif act == 1:
            content = {"architectures": content.get("architectures"), "text_config": content}
        elif act == 2:
            content["quantization_config"] = {
                "quant_method": dice.choice(("gptq", "awq", "fp8", "ascend", odd.value(dice))),
                "bits": odd.value(dice),
            }
        else:
            content[key] = odd.value(dice)
    text = json.dumps(content).encode("utf-8", "replace")
    return odd.bent(dice, text) if dice.random() < 0.1 else text


def _more(dice: _Dice, *choices: str) -> list[str]:
    """Some of the options, each with a number that may be none."""
    given = [name for name in choices if dice.random() < 0.15]
    return [f"{name}={_said(dice, dice.choice(_NUMBERS[2:8]))}" for name in given]


def configurations(dice: _Dice, made: Any) -> None:
    """A step, a service, training, or how many cards, of a model that may not be one."""
    made.files["config.json"] = _config(dice)
    chip = "910b3" if dice.random() < 0.6 else odd.chip(dice)
    verb = dice.choice(("step", "serve", "train", "recommend", "plan"))
    made.cpu_s = 40 if verb in ("recommend", "plan") else 20  # layouts are searched: 8 s, alone
    if verb == "recommend":
        made.words = ["recommend", "config.json", "-s", dice.choice(("Atlas 800I A2", chip))]
        made.words += [f"--rate={_said(dice, '2')}", f"--slo={_said(dice, '500')}"]
        made.words += _more(dice, "--tpot", "--input", "--output", "--quantile", "--dtype", "--budget", "--seed")  # fmt: skip
        return
    if verb == "plan":
        made.files["p.yaml"] = yaml.safe_dump(_plan(dice)).encode("utf-8", "replace")
        made.words = ["plan", "p.yaml"]
        return
    made.words = ["llm", verb, "config.json", "-s", chip]
    made.words += _more(dice, "--tp", "--pp", "--dp", "--ep", "--cards", "--dtype")
    if verb == "step":
        made.words += _more(dice, "--batch", "--context", "--chunk", "--top")
        made.words += dice.choice(([], [], ["--phase", "prefill"], ["--phase", "mixed"]))
    elif verb == "serve":
        made.words += ["--requests=20"] if dice.random() < 0.7 else []
        made.words += _more(
            dice, "--rate", "--concurrency", "--input", "--output", "--spread", "--seed", "--draft", "--accepted",
            "--max-sequences", "--max-tokens", "--prefix-share", "--ttft-ms", "--tpot-ms",
        )  # fmt: skip
    else:
        made.words += _more(
            dice, "--seq", "--micro-batch", "--global-batch", "--zero", "--virtual", "--recompute"
        )
    if dice.random() < 0.1:
        made.files["c.yaml"] = yaml.safe_dump({
            "keys": {"layers": "num_hidden_layers"}, "defaults": {"kv_heads": odd.value(dice)},
            "qk_norm": odd.value(dice), "attention": dice.choice(("latent", odd.value(dice))),
        }).encode("utf-8", "replace")  # fmt: skip
        made.words += ["--architecture", "c.yaml"]


def _said(dice: _Dice, proper: str) -> str:
    return proper if dice.random() < 0.7 else dice.choice(_NUMBERS)


def _plan(dice: _Dice) -> Any:
    content: Any = LLM_PLAN
    for _ in range(dice.choice((0, 1, 1, 2))):
        content = odd.changed(dice, content)
    return content
