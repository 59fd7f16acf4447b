"""Architectures of today from their published configs: weights, layers by kind, steps, honesty."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from npusim.hardware import load_profile
from npusim.llm import Batch, LanguageModel, Layout, LlmStep, Sampling, read_model, step
from npusim.llm.workload import batch_of
from npusim.values.errors import ArgumentError, FileError
from support import commands
from support.llm_recent import RECENT, SHIPPED, UNSEEN
from support.paths import ROOT

Reader = Callable[..., LanguageModel]


@pytest.fixture
def read(tmp_path: Path) -> Reader:
    """The model of a published config with something changed."""

    def reader(name: str, **changed: Any) -> LanguageModel:
        (tmp_path / "config.json").write_text(json.dumps({**RECENT[name][0], **changed}))
        return read_model(tmp_path)

    return reader


def timed(model: LanguageModel, batch: Batch, soc: str = "910b3", **more: Any) -> LlmStep:
    sizes = model.architecture
    tp = next(ranks for ranks in (8, 4, 2, 1) if sizes.heads % ranks == 0)
    return step(model, load_profile(soc), Layout(tp), batch, dtype="bf16", **more)


@pytest.mark.parametrize("name", [*RECENT, *SHIPPED])
def test_weights_are_those_that_are_published(read: Reader, name: str) -> None:
    if name in SHIPPED:
        sizes = read_model(ROOT / "reports" / "data" / "llm_configs" / f"{name}.json").architecture
        published: float = SHIPPED[name]
    else:
        sizes, published = read(name).architecture, RECENT[name][1]
    # Files hold drafts or none; some of them with embeddings and a head of their own.
    copies = sizes.drafts * 2 * sizes.vocabulary * sizes.hidden
    counts = (0, sizes.draft_weights, sizes.draft_weights + copies)
    allowed = 0.005 if name in UNSEEN else 0.001
    assert min(abs((sizes.parameters + more) / published - 1) for more in counts) < allowed


def test_none_of_them_is_approximated(read: Reader) -> None:
    guessed = [name for name in RECENT if read(name).architecture.approximated]
    assert not guessed


@pytest.mark.parametrize("name", RECENT)
def test_every_one_reads_and_answers(read: Reader, name: str) -> None:
    model = read(name)
    prompt = timed(model, batch_of("prefill", 1, 1024))
    assert prompt.compute_ms > 0
    assert not prompt.device.refused
    if not model.architecture.causal:
        with pytest.raises(ArgumentError, match="--phase prefill"):
            timed(model, Batch(4, 500))
        return
    answer = timed(model, Batch(4, 2000))
    assert not answer.device.refused
    assert answer.step_ms == pytest.approx(
        answer.compute_ms + answer.communication_ms + answer.host_ms
    )
    # Nothing decodes faster than memory gives the weights that every token takes.
    sizes = model.architecture
    least = sizes.all_mixers + sizes.dense_layers * sizes.dense_weights
    least -= sizes.layers * sizes.hidden * 2  # what is left of rounding
    if not sizes.crossed:
        rate = load_profile("910b3").memory.hbm_nominal_gbps * 1e6
        assert answer.compute_ms * rate > 2 * least / answer.layout.tp


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("Qwen3-Next-80B-A3B", {"linear": 36, "full": 12}),
        ("gpt-oss-120b", {"window": 18, "full": 18}),
        ("Gemma-3-27B", {"window": 52, "full": 10}),
        ("Llama-4-Maverick", {"window": 36, "full": 12}),
        ("MiniMax-M1", {"linear": 70, "full": 10}),
        ("MiniMax-M2", {"full": 62}),
        ("Mistral-7B-v0.1", {"window": 32}),
        ("Phi-4-mini", {"full": 32}),  # its window is longer than any text
        ("Qwen2.5-VL-7B", {"full": 28}),  # a window that isn't used
    ],
)
def test_layers_are_of_the_kinds_that_the_publisher_says(
    read: Reader, name: str, kinds: dict[str, int]
) -> None:
    sizes = read(name).architecture
    found = {kind: sizes.layers_that(kind) for kind in ("full", "window", "linear")}
    assert {kind: count for kind, count in found.items() if count} == kinds


def test_half_of_mavericks_layers_have_experts(read: Reader) -> None:
    assert read("Llama-4-Maverick").architecture.expert_layers == 24
    assert read("Llama-4-Scout").architecture.expert_layers == 48
    assert read("ERNIE-4.5-300B-A47B").architecture.expert_layers == 51


def test_a_window_bounds_what_decoding_and_the_cache_cost(read: Reader) -> None:
    model = read("gpt-oss-20b")
    short, long = (timed(model, Batch(32, context)) for context in (1000, 33000))
    full = timed(read("gpt-oss-20b", layer_types=["full_attention"] * 24), Batch(32, 33000))
    assert long.step_ms - short.step_ms < 0.6 * (full.step_ms - short.step_ms)
    assert long.memory.kv_bytes < 0.51 * full.memory.kv_bytes
    assert long.memory.kv_tokens > 1.9 * full.memory.kv_tokens


def test_a_state_costs_the_same_after_any_text(read: Reader) -> None:
    model = read("Qwen3-Next-80B-A3B", full_attention_interval=1000)  # states only
    short, long = (timed(model, Batch(32, context)) for context in (1000, 33000))
    assert long.compute_ms == short.compute_ms
    assert long.memory.kv_bytes == short.memory.kv_bytes
    twice = timed(model, Batch(64, 1000))
    assert twice.memory.kv_bytes == 2 * short.memory.kv_bytes


def test_prompts_pass_states_in_one_kernel_where_there_is_one(read: Reader) -> None:
    prompts = batch_of("prefill", 1, 4096)
    found = timed(read("Qwen3-Next-80B-A3B"), prompts)
    (read_by,) = {e.item.op for e in found.device.items if "GatedDelta" in e.item.op}
    assert read_by == "ChunkGatedDeltaRule"
    wide = timed(read("Qwen3-Next-80B-A3B", linear_key_head_dim=256), prompts)
    assert not [each for each in wide.device.items if "GatedDelta" in each.item.op]


def test_an_indexer_pays_where_texts_are_long(read: Reader) -> None:
    sparse, dense = read("DeepSeek-V3.2-Exp"), read("DeepSeek-V3")
    far = Batch(16, 60_000)
    looked = timed(sparse, far)
    assert looked.compute_ms < 0.7 * timed(dense, far).compute_ms
    assert not looked.guesses
    assert not looked.device.refused
    kernels = {each.item.op for each in looked.device.items}
    assert {"LightningIndexer", "SparseFlashAttention"} <= kernels


def test_images_cost_by_their_size(
    read: Reader, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = read("Qwen2.5-VL-7B")
    tower = model.architecture.tower
    assert tower is not None
    assert tower.patches(1288, 952) == 92 * 68
    assert tower.tokens(tower.patches(1288, 952)) == 46 * 34
    assert tower.patches(1, 1) == 4
    said = {}
    for size in ("448x448", "1288x952"):
        line = f"--phase prefill --context 100 --images 2 --image-size {size} -s 910b3 --json"
        said[size] = commands.npusim(capsys, f"llm step {tmp_path} {line}").json
    assert said["448x448"]["batch"]["chunk"] == 100 + 2 * 256
    assert said["1288x952"]["batch"]["chunk"] == 100 + 2 * 46 * 34
    assert said["1288x952"]["compute_ms"] > 2 * said["448x448"]["compute_ms"]
    blind = commands.npusim(capsys, f"llm step {tmp_path} --images 1 -s 910b3")
    assert blind.code == 2  # decoding reads no prompt


def test_whisper_hears_before_it_writes(read: Reader) -> None:
    model = read("whisper-large-v3")
    found = timed(model, batch_of("prefill", 1, 4))
    assert found.batch.patches == 1500
    assert timed(model, batch_of("prefill", 2, 4)).compute_ms > 1.3 * found.compute_ms
    # Keys and values of 1500 frames in 32 layers, beside 448 tokens at most.
    assert found.memory.kv_bytes >= 1500 * 32 * 2 * 1280 // 4 * 2


def test_four_bit_floats_are_refused_with_what_to_do(read: Reader) -> None:
    chip, layout = load_profile("910b3"), Layout(8)
    with pytest.raises(ArgumentError, match=r"mxfp4(.|\n)*--dtype bf16"):
        step(read("gpt-oss-120b"), chip, layout, Batch(1, 100))
    converted = step(read("DeepSeek-V3"), chip, layout, Batch(1, 100))
    assert converted.precision.name == "bf16"
    assert "published as fp8" in converted.notes[0]


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "weights": {"num_bits": 8, "type": "int"},
            "input_activations": {"num_bits": 8, "type": "int", "dynamic": True}}}}, "w8a8"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "weights": {"num_bits": 4, "type": "int"}, "input_activations": None}}}, "w4a16"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {
            "weights": {"num_bits": 8, "type": "float"}}}}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "w4a16"),
        ({"quant_method": "gptq", "bits": 8}, "w8a16"),
        ({"quant_method": "fp8"}, "fp8"),
    ],
)  # fmt: skip
def test_quantised_as_published(read: Reader, said: dict[str, Any], name: str) -> None:
    assert read("Phi-4", quantization_config=said).quantisation == name


@pytest.mark.parametrize("said", ["W8A8_DYNAMIC", "W4A8_DYNAMIC", "W8A8", "FLOAT"])
def test_what_the_vendors_tool_writes_beside_is_read(
    read: Reader, tmp_path: Path, said: str
) -> None:
    (tmp_path / "quant_model_description.json").write_text(json.dumps({"model_quant_type": said}))
    wanted = "" if said == "FLOAT" else said[:4].lower()
    assert read("Phi-4").quantisation == wanted


def test_an_id_is_taken_from_the_cache_or_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("MODELSCOPE_CACHE", str(tmp_path / "none"))
    with pytest.raises(FileError, match=r"hf download Qwen/Qwen3-Embedding-0\.6B config\.json"):
        read_model("Qwen/Qwen3-Embedding-0.6B")
    place = tmp_path / "models--Qwen--Qwen3-Embedding-0.6B" / "snapshots" / "1a2b"
    place.mkdir(parents=True)
    (place / "config.json").write_text(json.dumps(RECENT["Qwen3-Embedding-0.6B"][0]))
    assert read_model("Qwen/Qwen3-Embedding-0.6B").name == "Qwen3-Embedding-0.6B"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"layer_types": 5}, "layer_types is 5"),
        ({"num_hidden_layers": "4"}, "num_hidden_layers is '4'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"num_experts": "8"}, "num_experts is '8'"),
        ({"num_experts_per_tok": None}, "num_experts_per_tok is None"),
        ({"mlp_only_layers": 3}, "mlp_only_layers is 3"),
        ({"sliding_window": "x"}, "sliding_window is 'x'"),
        ({"vision_config": {"depth": "x", "hidden_size": 3}}, "depth|num_hidden_layers"),
        ({"quantization_config": {"quant_method": "bitsandbytes"}}, "bitsandbytes"),
        ({"hybrid_override_pattern": "ME*E"}, "its hybrid_override_pattern names layers of kinds"),
        ({"layers_block_type": ["mamba", "moe"]}, "its layers_block_type names layers of kinds"),
    ],
)
def test_odd_values_are_refused_by_their_keys(
    read: Reader, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(FileError, match=said):
        read("Qwen3-Coder-480B-A35B", **changed | {"architectures": ["Qwen9MoeForCausalLM"]})


@pytest.mark.parametrize(
    ("said", "name"),
    [({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
     ({"quant_algo": "FP8", "producer": {"name": "modelopt"}}, "fp8")],
)  # fmt: skip
def test_what_an_optimiser_wrote_is_read_and_can_be_made_anew(
    read: Reader, said: dict[str, Any], name: str
) -> None:
    model = read("Phi-4", quantization_config=said)
    assert model.quantisation == name
    asked = (model, load_profile("910b3"), Layout(), Batch(1, 100))
    assert step(*asked, dtype="w8a8").precision.name == "w8a8"
    if name == "nvfp4":
        with pytest.raises(ArgumentError, match="published as nvfp4"):
            step(*asked)


def test_a_limit_without_end_is_a_number_and_a_part_that_nobody_reads_is_said(read: Reader) -> None:
    found = read("Phi-4", time_step_limit=[0.0, float("inf")])
    assert not found.architecture.approximated
    part = {**RECENT["Kimi-K2-Instruct"][0], "model_type": "deepseek_v3"}
    part |= {"routed_expert_hidden_size": 3584}
    of = {"architectures": ["KimiK9ForConditionalGeneration"], "text_config": part}
    eyes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    eyes |= {"intermediate_size": 128, "patch_size": 14}
    seeing = read("Kimi-K2-Instruct", **of, vision_config=eyes)
    said = dict(seeing.architecture.approximated)
    assert set(said) == {"tower", "layers"}
    assert "routed_expert_hidden_size" in said["layers"]


def test_training_of_what_isnt_modelled_is_refused(read: Reader) -> None:
    from npusim.llm import Training, train

    with pytest.raises(ArgumentError, match="isn't modelled"):
        train(read("Qwen3-Next-80B-A3B"), load_profile("910b3"), Layout(8), Training(4096))


def test_what_requests_ask_of_the_sampler_costs(read: Reader) -> None:
    model = read("Phi-4")
    ways = [
        Sampling(greedy=True),
        Sampling(top_k=0, top_p=1.0),
        Sampling(),
        Sampling(penalties=True),
    ]
    greedy, drawn, sorted_, punished = (timed(model, Batch(64, 500), sampling=way) for way in ways)
    assert greedy.step_ms < drawn.step_ms < sorted_.step_ms < punished.step_ms
    assert greedy.beside_ms == 0
    assert drawn.beside_ms > 0.3  # 64 sequences' random numbers, drawn at once and beside the model
    for wrong in ({"top_k": -1}, {"top_p": 0.0}, {"top_p": float("nan")}):
        with pytest.raises(ArgumentError, match="--top-"):
            Sampling(**wrong)  # type: ignore[arg-type]


def test_a_draft_is_verified_in_steps_that_decode(read: Reader) -> None:
    """Latent attention doesn't widen the whole cache for it, as prompts do."""
    model = read("DeepSeek-V3", quantization_config=None)
    alone, verified = (timed(model, Batch(16, 4000, drafted=each)) for each in (0, 1))
    assert alone.compute_ms < verified.compute_ms < 2 * alone.compute_ms
    assert verified.batch.phase == "decode"
    assert verified.batch.captured(1).tokens == 32
    assert verified.memory.kv_bytes > alone.memory.kv_bytes
    drafting = timed(read("DeepSeek-V3", num_nextn_predict_layers=0), Batch(16, 4000, drafted=1))
    assert 1.01 < verified.compute_ms / drafting.compute_ms < 1.1  # a layer of 61, and its logits


def test_two_tokens_of_a_sequence_cost_what_a_short_prompt_does(read: Reader) -> None:
    model = read("Phi-4")
    verified = timed(model, Batch(8, 1000, drafted=1), graph="full")
    read_ = timed(model, Batch(prompts=8, chunk=2, before=1000), graph="full")
    assert verified.compute_ms == pytest.approx(read_.compute_ms, rel=0.05)
