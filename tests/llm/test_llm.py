"""Language models: configs as they come, steps whose parts add up, memory, what is refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npusim.hardware import load_profile
from npusim.llm import Batch, LanguageModel, Layout, LlmStep, read_model, step
from npusim.llm.memory import weights_bytes
from npusim.llm.precision import SCHEMES, precision_of
from npusim.llm.sampling import Sampling
from npusim.llm.step import device_time
from npusim.llm.work import Work, part, tensor
from npusim.llm.workload import batch_of
from npusim.serving.costs import step_costs
from npusim.values.dtypes import BFLOAT16, INT8, INT32
from npusim.values.errors import ArgumentError, FileError, UnknownNameError
from support import commands
from support.llm_families import FAMILIES
from support.paths import ROOT

GREEDY = Sampling(greedy=True)
CONFIGS = ROOT / "reports" / "data" / "llm_configs"

# Billions of weights as the models' pages say.
SIZES = {
    "Qwen3-0.6B": 0.6,
    "Qwen3-8B": 8.2,
    "Qwen3-32B": 32.8,
    "Qwen3-30B-A3B": 30.5,
    "Qwen3-235B-A22B": 235,
    "Qwen2.5-7B-Instruct": 7.6,
    "DeepSeek-R1": 671,
    "Pangu-Pro-MoE-72B": 72,
    "Llama-2-7B": 6.7,
}


def model(name: str) -> LanguageModel:
    return read_model(CONFIGS / f"{name}.json")


def timed(name: str, soc: str, layout: Layout, batch: Batch, **more: Any) -> LlmStep:
    return step(model(name), load_profile(soc), layout, batch, **more)


@pytest.mark.parametrize(("name", "billions"), SIZES.items())
def test_the_weights_of_a_config_are_counted(name: str, billions: float) -> None:
    assert model(name).architecture.parameters / 1e9 == pytest.approx(billions, rel=0.02)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_hold_the_weights_that_they_publish(tmp_path: Path, name: str) -> None:
    raw, published = FAMILIES[name]
    (tmp_path / "config.json").write_text(json.dumps(raw))
    sizes = read_model(tmp_path).architecture
    assert sizes.parameters == pytest.approx(published, rel=0.001)
    kept = weights_bytes(sizes, Layout(), precision_of("bf16", "bf16"))
    assert kept == pytest.approx(2 * published, rel=0.01)


@pytest.mark.parametrize("soc", ["Ascend910B3", "Ascend910B4", "Ascend310P3", "Ascend910A"])
@pytest.mark.parametrize("name", ["Phi-2", "Gemma-3-1B"])
def test_decoding_is_never_faster_than_memory_gives_the_weights(
    tmp_path: Path, name: str, soc: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(FAMILIES[name][0]))
    read, chip = read_model(tmp_path), load_profile(soc)
    found = step(read, chip, Layout(), Batch(1, 500))
    sizes = read.architecture
    layers = 2 * (sizes.parameters - sizes.vocabulary * sizes.hidden)  # a row of the embeddings
    assert found.compute_ms * chip.memory.hbm_nominal_gbps * 1e6 > layers


@pytest.mark.parametrize("name", SIZES)
def test_every_model_decodes_and_reads_prompts_on_every_product(name: str) -> None:
    experts = model(name).architecture.experts is not None
    for soc in ("Ascend910B3", "Ascend310P3", "Ascend910A", "Ascend910_9391"):
        for batch in (
            Batch(2, 300),
            batch_of("prefill", 1, 256),
            batch_of("mixed", 2, 200, chunk=64),
        ):
            found = timed(name, soc, Layout(tp=4, experts=4 if experts else 1), batch)
            parts = found.compute_ms + found.communication_ms + found.host_ms
            assert found.step_ms == pytest.approx(parts)
            assert found.compute_ms > 0
            assert found.communication_ms > 0
            assert found.band_ms[0] < found.step_ms < found.band_ms[1]


def test_decoding_on_a3_takes_what_profiles_say() -> None:
    """Qwen3-32B on 16 dies with four requests: 15.4 ms, 10.5 of them compute."""
    found = timed("Qwen3-32B", "Ascend910_9391", Layout(tp=16), Batch(4, 4864))
    assert found.step_ms == pytest.approx(15.38, rel=0.15)
    assert found.compute_ms == pytest.approx(10.545, rel=0.2)
    assert found.host_ms == pytest.approx(0.965, rel=0.2)


@pytest.mark.parametrize(
    ("heads", "shared", "sequences", "keys", "masked", "measured_us", "off"),
    [
        (4, 1, 1, 4864, True, 61.2, 0.1),
        (16, 2, 8, 16384, False, 171.4, 0.2),
        (16, 2, 8, 16384, True, 173.4, 0.2),
    ],
)
def test_pages_are_read_as_fast_as_profiles_say(
    heads: int, shared: int, sequences: int, keys: int, masked: bool, measured_us: float, off: float
) -> None:
    """Packed sequences, one block a sequence and head of keys (Horacehxw/msModeling; the chip of
    the longer ones isn't stated).
    """
    chip, pages = load_profile("Ascend910_9391"), keys // 128
    work, query = Work(chip), tensor(BFLOAT16, sequences, heads, 128)
    page = tensor(BFLOAT16, sequences * pages, 128, shared * 128)
    mask, between = tensor(INT8, 2048, 2048) if masked else None, (None,) * 9
    work.run(
        part(
            "FusedInferAttentionScore",
            (query, page, page, None, mask, *between, tensor(INT32, sequences, pages)), (query,),
            num_heads=heads, num_key_value_heads=shared, input_layout="TND",
            actual_seq_lengths=list(range(1, sequences + 1)),
            actual_seq_lengths_kv=[keys] * sequences, sparse_mode=3 if masked else 0,
        )
    )  # fmt: skip
    assert device_time(work, chip).device_us == pytest.approx(measured_us, rel=off)


def test_layers_of_experts_wait_for_the_host_without_a_graph() -> None:
    """165 ms a token over 62 layers (vllm-ascend, issue 7723); long prompts hide it."""
    token, read = (
        timed("Qwen3-235B-A22B", "Ascend910_9391", Layout(tp=8, experts=8), batch, graph="eager")
        for batch in (Batch(1, 4096), Batch(prompts=8, chunk=4096))
    )
    assert token.step_ms / 94 == pytest.approx(165 / 62, rel=0.05)
    assert read.host_ms < 2 < 0.01 * read.step_ms


@pytest.mark.parametrize(
    ("name", "layout", "most"),
    [("Qwen3-235B-A22B", Layout(tp=8, experts=8), 32768), ("Qwen3-0.6B", Layout(), 131072)],
)
def test_large_steps_of_prompts_cost_what_they_do_alone(
    name: str, layout: Layout, most: int
) -> None:
    """Whether small ones wait for the host or not, and beyond the last place of the table."""
    costs = step_costs(
        model(name), load_profile("Ascend910_9391"), layout,
        max_sequences=1, max_tokens=most, longest=8192, prompt=4096, graph="full",
    )  # fmt: skip
    asked = Batch(prompts=most // 4096, chunk=4096)
    alone = timed(name, "Ascend910_9391", layout, asked, graph="eager")
    assert costs.prompt[most] == pytest.approx(alone.step_ms, rel=0.1)


def test_prompts_on_a3_take_what_profiles_say() -> None:
    """65536 tokens of Qwen3-32B on 16 dies: 1182 ms of compute, 897 of communication."""
    asked = batch_of("prefill", 64, 1024)
    found = timed("Qwen3-32B", "Ascend910_9391", Layout(tp=16, sp=True), asked)
    assert found.compute_ms == pytest.approx(1182.0, rel=0.2)
    assert found.communication_ms == pytest.approx(896.7, rel=0.2)


def test_a_product_without_bfloat16_or_attention_says_what_runs_instead() -> None:
    old = timed("Qwen3-8B", "Ascend910A", Layout(tp=4), Batch(4, 1000))
    assert old.precision.name == "fp16"
    assert "no bfloat16" in old.notes[0]
    instead = dict(old.replaced)
    assert instead["FusedInferAttentionScore"] == "BatchMatMulV2, Muls, SoftmaxV2"
    assert not old.device.refused
    duo = timed("Qwen3-8B", "Ascend310P3", Layout(tp=2), Batch(4, 1000))
    assert dict(duo.replaced)["FusedInferAttentionScore"] == "IncreFlashAttention"
    quantised = timed("Qwen3-8B", "Ascend910A", Layout(tp=4), Batch(4, 1000), dtype="w8a8")
    assert "QuantBatchMatmulV3" in {each.op for each in quantised.device.refused}
    assert not quantised.runs


def test_a_host_that_launches_every_operator_is_what_a_small_model_waits_for() -> None:
    steps = {
        graph: timed("Qwen3-0.6B", "910b3", Layout(), Batch(1, 512), graph=graph)
        for graph in ("full", "piecewise", "eager")
    }
    assert steps["full"].host_ms < steps["piecewise"].host_ms <= steps["eager"].host_ms
    assert steps["eager"].host_ms > steps["eager"].compute_ms
    assert len({round(found.compute_ms + found.beside_ms, 9) for found in steps.values()}) == 1


@settings(max_examples=60, deadline=None)
@given(sequences=st.integers(1, 600), tp=st.sampled_from([1, 2, 3, 4, 8, 16]))
def test_a_captured_graph_holds_the_batch_in_rows_that_ranks_can_share(
    sequences: int, tp: int
) -> None:
    found = Batch(sequences, 100).captured(tp)
    assert found.rows == sequences
    assert found.cached == Batch(sequences, 100).cached
    if sequences <= 512:
        assert found.tokens % tp == 0
        assert found.tokens in (1, 2, 4) or found.tokens % 8 == 0
        assert found.idle < max(8, 16 * tp)
    else:
        assert found.idle == 0


def test_sixteen_ranks_exchange_sixteen_rows_for_one_sequence() -> None:
    """AllReduce of 160 KiB on 16 dies, as in the profiles of Qwen3-32B with one request."""
    found = timed("Qwen3-32B", "Ascend910_9391", Layout(tp=16, sp=True), Batch(1, 512))
    sums = {each.nbytes for each in found.exchanges if each.why == "sums of layers"}
    assert sums == {163840}
    assert [each.operation for each in found.exchanges].count("wait") == 1


def test_a_product_without_a_random_engine_gets_its_numbers_from_the_host() -> None:
    """Qwen3-32B as W8A8 on four 310P gives eight requests 105 tokens/s: at most 76 ms a step."""
    found = timed("Qwen3-32B", "Ascend310P3", Layout(tp=4), Batch(8, 768), dtype="w8a8")
    assert not {each.op for each in found.device.operators if "Random" in each.op}
    assert "DSARandomUniform" in dict(found.replaced)
    assert found.step_ms == pytest.approx(72, rel=0.2)


def test_collectives_hide_behind_the_products_beside_them() -> None:
    """Atlas 800I A2, 4096 tokens of a dense model of 32 billion: 604 ms, products fused."""
    asked = ("Qwen3-32B", "Ascend910B4-1", Layout(tp=2, sp=True), batch_of("prefill", 2, 2048))
    apart, flash, fused = (
        timed(*asked, dtype="w8a8", sampling=GREEDY, overlap=overlap)
        for overlap in (False, None, True)
    )
    assert apart.communication_ms > flash.communication_ms > fused.communication_ms > 0
    assert apart.compute_ms == fused.compute_ms
    assert fused.step_ms == pytest.approx(604.07, rel=0.2)
    hidden = {each.operation for each in flash.exchanges if each.hidden_ms}
    assert hidden == {"reducescatter"}
    assert all(each.hidden_ms <= each.total_ms for each in fused.exchanges)


@pytest.mark.parametrize("dtype", SCHEMES)
def test_fewer_bits_are_less_memory(dtype: str) -> None:
    whole = model("Qwen3-32B").architecture
    found = weights_bytes(whole, Layout(tp=4), precision_of(dtype, "bf16"))
    assert found <= weights_bytes(whole, Layout(tp=4), precision_of("bf16", "bf16"))


def test_memory_counts_the_cache_and_finds_what_does_not_fit() -> None:
    found = timed("Qwen3-32B", "910b4", Layout(), Batch(1, 128)).memory
    assert not found.fits
    assert found.kv_tokens == 0
    small = timed("Qwen3-8B", "910b3", Layout(), Batch(8, 1000)).memory
    assert small.fits
    assert small.kv_bytes == 8 * 1001 * 36 * 2 * 8 * 128 * 2
    assert small.kv_tokens % 128 == 0
    halved = timed("Qwen3-8B", "910b3", Layout(), Batch(8, 1000), dtype="w8a8c8").memory
    assert halved.kv_bytes * 2 == small.kv_bytes


@settings(max_examples=15, deadline=None)
@given(batch=st.integers(1, 64), context=st.integers(1, 8192), tp=st.sampled_from([1, 2, 4, 8]))
def test_more_context_is_never_less_memory_and_parts_always_add_up(
    batch: int, context: int, tp: int
) -> None:
    found, longer = (
        timed("Qwen3-0.6B", "910b3", Layout(tp=tp), Batch(batch, length))
        for length in (context, context + 500)
    )
    assert longer.memory.kv_bytes > found.memory.kv_bytes
    assert found.step_ms == pytest.approx(found.compute_ms + found.communication_ms + found.host_ms)


def test_experts_dealt_over_ranks_send_their_tokens() -> None:
    dealt = timed("Qwen3-30B-A3B", "A3", Layout(tp=2, dp=2, experts=4), Batch(16, 500))
    cut = timed("Qwen3-30B-A3B", "A3", Layout(tp=2, dp=2), Batch(16, 500))
    assert {"dispatch", "combine"} <= {each.why for each in dealt.exchanges}
    assert "alltoall" not in {each.operation for each in cut.exchanges}
    assert dealt.memory.weights_bytes < cut.memory.weights_bytes


def test_ranks_of_a2_gather_all_tokens_instead() -> None:
    """Prompts of 2048 tokens hold tokens of Qwen3-30B-A3B up for 156 to 164 ms (vllm-ascend)."""
    asked = batch_of("prefill", 1, 2048)
    found = timed("Qwen3-30B-A3B", "910b3", Layout(tp=2, dp=2, experts=4), asked)
    sent = {each.why: each for each in found.exchanges}
    assert sent["tokens of all ranks"].ranks == sent["sums of all experts"].ranks == 2
    assert found.step_ms == pytest.approx(160, rel=0.15)
    shared = timed("Qwen3-30B-A3B", "910b3", Layout(2, 1, 2, 4, sp=True), asked)
    sent = {each.why: each for each in shared.exchanges}
    assert sent["tokens of all ranks"].ranks == sent["sums of all experts"].ranks == 4
    assert shared.step_ms < found.step_ms
    wide = timed("Qwen3-30B-A3B", "910b3", Layout(dp=16, experts=16), Batch(16, 500))
    assert {"dispatch", "combine"} <= {each.why for each in wide.exchanges}


def test_only_what_graphs_are_captured_for_is_sent_by_kernels() -> None:
    """What of a prompt a rank has is little; the whole of it is what buffers have no room for."""
    for tokens, operation in ((512, "MoeDistributeDispatchV2"), (2048, "alltoall")):
        asked = batch_of("prefill", 1, tokens)
        found = timed("Qwen3-30B-A3B", "A3", Layout(tp=8, experts=8), asked)
        assert {e.operation for e in found.exchanges if e.why == "dispatch"} == {operation}


def test_a_second_step_is_quick() -> None:
    ask = ("Qwen3-32B", "910b3", Layout(tp=4), Batch(32, 4096))
    timed(*ask)
    before = time.process_time()
    timed(*ask)
    assert time.process_time() - before < 0.2


def test_an_unknown_architecture_is_guessed_or_described(tmp_path: Path) -> None:
    raw = json.loads((CONFIGS / "Qwen3-8B.json").read_text())
    config = tmp_path / "config.json"
    strange = {"architectures": ["Qwen9ForCausalLM"], "ssm_state_size": 64}
    config.write_text(json.dumps(raw | strange))
    guess = read_model(tmp_path)
    assert guess.architecture.parameters == model("Qwen3-8B").architecture.parameters
    found = step(guess, load_profile("910b3"), Layout(), Batch(8, 1000))
    assert "class isn't known" in found.guesses[0].why
    assert found.guesses[0].why.endswith("nobody here reads its ssm_state_size")
    assert 0.9 < found.guesses[0].share < 1
    described = tmp_path / "qwen9.yaml"
    described.write_text("qk_norm: true\n")
    found = read_model(tmp_path, described).architecture
    assert found == model("Qwen3-8B").architecture.model_copy(update={"name": "Qwen9ForCausalLM"})
    described.write_text("qk_norms: true\n")
    with pytest.raises(FileError, match="qk_norms"):
        read_model(tmp_path, described)


@pytest.mark.parametrize(
    ("name", "changed", "said"),
    [
        ("Llama-2-7B", {"hidden_size": None}, "hidden_size"),
        ("Llama-2-7B", {"num_attention_heads": "many"}, "heads"),
        ("Llama-2-7B", {"num_hidden_layers": -1}, "layers"),
        ("Llama-2-7B", {"num_hidden_layers": 10**12}, "num_hidden_layers is 1000000000000: more"),
        ("Llama-2-7B", {"num_hidden_layers": True}, "num_hidden_layers is True: no whole number"),
        ("Llama-2-7B", {"vocab_size": "32000"}, "vocab_size is '32000': no whole number"),
        ("Llama-2-7B", {"hidden_size": float("inf")}, "hidden_size is inf: no whole number"),
        ("Llama-2-7B", {"rms_norm_eps": float("nan")}, "rms_norm_eps is nan: no number"),
        ("Llama-2-7B", {"text_config": {"head_dim": [1.5]}}, r"text_config.head_dim is 1\.5"),
        ("Qwen3-30B-A3B", {"num_experts": "128"}, "num_experts is '128': no whole number"),
        ("Llama-2-7B", {"quantization_config": {"quant_method": "gptq", "bits": 3}}, "w3a16"),
        ("Qwen3-8B", {"num_key_value_heads": 7}, "num_key_value_heads is 7: doesn't divide the 32"),
        (
            "Qwen3-30B-A3B",
            {"num_experts_per_tok": 129},
            "num_experts_per_tok is 129: there are 128",
        ),
    ],
)
def test_a_wrong_config_is_refused(
    tmp_path: Path, name: str, changed: dict[str, Any], said: str
) -> None:
    raw = json.loads((CONFIGS / f"{name}.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(raw | changed))
    with pytest.raises(FileError, match=said):
        read_model(tmp_path)


def test_other_names_for_the_same_sizes(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({
        "architectures": ["ChatGLMModel"], "num_layers": 40, "hidden_size": 4096,
        "num_attention_heads": 32, "multi_query_group_num": 2, "kv_channels": 128,
        "ffn_hidden_size": 13696, "padded_vocab_size": 151552, "torch_dtype": "float16",
    }))  # fmt: skip
    found = read_model(config)
    assert found.architecture.parameters / 1e9 == pytest.approx(9.4, rel=0.02)
    assert found.dtype == "fp16"


def test_the_header_of_a_weights_file_tells_the_dtype(tmp_path: Path) -> None:
    raw = json.loads((CONFIGS / "Llama-2-7B.json").read_text())
    del raw["torch_dtype"]
    (tmp_path / "config.json").write_text(json.dumps(raw))
    header = json.dumps({"w": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}).encode()
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(len(header).to_bytes(8, "little") + header + b"\0\0")
    assert read_model(tmp_path).dtype == "fp16"
    weights.write_bytes(b"\xff" * 16)
    with pytest.raises(FileError, match="safetensors"):
        read_model(tmp_path)


def test_a_config_says_how_it_is_quantised(tmp_path: Path) -> None:
    raw = json.loads((CONFIGS / "Llama-2-7B.json").read_text())
    for said, name in (
        ({"quantize": "w8a8_dynamic"}, "w8a8"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "w4a16"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(raw | said))
        assert read_model(tmp_path).quantisation == name


def test_layouts_that_cannot_be_are_refused() -> None:
    chip = load_profile("910b3")
    with pytest.raises(ArgumentError, match="heads"):
        step(model("Qwen2.5-7B-Instruct"), chip, Layout(tp=8), Batch(1, 10))
    with pytest.raises(ArgumentError, match="experts"):
        step(model("Qwen3-8B"), chip, Layout(tp=2, experts=2), Batch(1, 10))
    with pytest.raises(ArgumentError, match=r"--ep 3(.|\n)*--ep 1 or --ep 2"):
        Layout(tp=2, experts=3)
    with pytest.raises(ArgumentError, match="--batch"):
        Batch()
    with pytest.raises(ArgumentError, match="16000000 sequences"):
        Batch(16_000_000, 1)
    with pytest.raises(UnknownNameError, match="w8a8"):
        step(model("Qwen3-8B"), chip, Layout(), Batch(1, 10), dtype="w8a9")


def test_the_verb(capsys: pytest.CaptureFixture[str]) -> None:
    config = str(CONFIGS / "Qwen3-32B.json")
    line = "-s 910b3 --cards 4 --tp 4 --dtype w8a8 --phase decode --batch 32 --context 4096"
    said = commands.npusim(capsys, f"llm step {config} {line} --json").json
    assert said["step_ms"] == pytest.approx(
        said["compute_ms"] + said["communication_ms"] + said["host_ms"]
    )
    assert said["band_ms"][0] < said["step_ms"] < said["band_ms"][1]
    assert said["memory"]["fits"]
    page = commands.npusim(capsys, f"llm step {config} {line}")
    assert page.code == 0
    assert "sums of layers" in page.out
    assert commands.npusim(capsys, f"llm step {config} -s 910b4").code == 1
    wrong = commands.npusim(capsys, f"llm step {config} -s 910b3 --cards 3 --tp 2")
    assert wrong.code == 2


@pytest.mark.parametrize(("sequences", "context"), [(1, 4400), (8, 3000), (45, 4400), (64, 700)])
def test_what_a_decoding_step_reads_comes_from_memory(sequences: int, context: int) -> None:
    """All caches, whose pages nobody has touched since the last step, and every expert once."""
    found = timed(
        "Qwen3-30B-A3B", "Ascend910_9391", Layout(), Batch(sequences, context), dtype="w8a8"
    )
    sizes = found.model.architecture
    assert sizes.experts is not None
    cached = 2 * sizes.kv_heads * sizes.head_dim * 2 * sequences * context
    hit = sizes.experts.count * (1 - (1 - sizes.experts.active / sizes.experts.count) ** sequences)
    expected = {
        "FusedInferAttentionScore": cached,
        "GroupedMatmul": hit * sizes.hidden * 2 * sizes.experts.width,
    }
    for op, nbytes in expected.items():
        each = next(each for each in found.device.items if each.item.op == op)
        assert not isinstance(each.timing, str)
        assert each.timing.tasks[0].hbm_bytes == pytest.approx(nbytes, rel=0.12)


def test_factors_of_a_rope_are_no_sizes(tmp_path: Path) -> None:
    """``mscale_all_dim`` of DeepSeek-V3 is a factor: 1.0 as it was published."""
    raw = json.loads((CONFIGS / "DeepSeek-R1.json").read_text())
    assert raw["rope_scaling"]["mscale_all_dim"] == 1.0
    assert model("DeepSeek-R1").quantisation == "fp8"
    raw["rope_scaling"]["factor"] = float("nan")
    (tmp_path / "config.json").write_text(json.dumps(raw))
    with pytest.raises(FileError, match="factor is nan"):
        read_model(tmp_path)
