"""Recurrent layers: LSTM and GRU."""

from npusim.operators.checks import absent, attribute_in, rank_is, same_dtype
from npusim.operators.definition import (
    Aclnn,
    Composed,
    Operator,
    family,
    flag,
    real,
    text,
    whole,
)
from npusim.operators.dtype_checks import together
from npusim.operators.norm_checks import not_empty
from npusim.operators.shape_checks import fits
from npusim.ops.recurrent.checks import shared_heads
from npusim.ops.recurrent.results import convolved, gru_states, lstm_states, passed_through
from npusim.values.dtypes import BFLOAT16, BOOL, FLOAT16, INT32, INT64

_CONVOLVED = (FLOAT16, BFLOAT16, INT32, INT64, BOOL)
_WHOLE = "INT32/INT64/-"
_PLACED = dict.fromkeys(
    ("A2", "A3"), (f"FLOAT16/BFLOAT16 {_WHOLE} {_WHOLE} BOOL/{_WHOLE} {_WHOLE}",)
)
# float32 states are Ascend 950's: attention/chunk_gated_delta_rule/op_host (host tiling)
_CHUNKED = dict.fromkeys(
    ("A2", "A3"), ("BFLOAT16 BFLOAT16 BFLOAT16 BFLOAT16 BFLOAT16 INT32 FLOAT/- BFLOAT16 BFLOAT16",)
)
_LSTM = (
    text("cell_type?", None),
    text("direction?"),
    whole("cell_depth?", only=1),
    flag("use_peephole?"),
    real("keep_prob?", only=1.0),
    real("cell_clip?"),
    whole("num_proj?", only=0),
    flag("time_major?", None),
    text("activation?"),
    real("forget_bias?"),
    text("gate_order?"),
    flag("is_training?"),
)
_GRU = (
    text("direction?"),
    whole("cell_depth?", only=1),
    real("keep_prob?", only=1.0),
    real("cell_clip?", only=-1.0),
    whole("num_proj?", only=0),
    flag("time_major?", None),
    text("activation?"),
    text("gate_order?"),
    flag("reset_after?"),
    flag("is_training?"),
)

_LAYERS = (
    flag("hasBias", "has_bias"),
    whole("numLayers", "layers"),
    real("dropout", None),
    flag("train"),
    flag("bidirectional", "both_ways"),
    flag("batchFirst", "batch_first"),
)
_LISTED = "numLayers bidirectional"

# fmt: off
OPERATORS = family(
    "recurrent",
    gated_delta=(
        Operator("RecurrentGatedDeltaRule", "query key value beta state actual_seq_lengths "
            "ssm_state_indices g? gk? num_accepted_tokens? -> out state", (real("scale_value?"),),
            Aclnn("aclnnRecurrentGatedDeltaRule", "query key value beta stateRef actualSeqLengths "
                "ssmStateIndices g? gk? numAcceptedTokens? -> out stateRef",
                (real("scaleValue", "scale_value"),),
                checks=((absent, "gk"),),
                rules="hicann/ops-transformer attention/recurrent_gated_delta_rule (docs)"),
            kernel="recurrent_gated_delta_rule",
            checks=((fits, "query", "t n d", "key", "t n d", "value", "t h v", "beta", "t h",
                "state", "s h v d", "actual_seq_lengths", "b", "ssm_state_indices", "t", "g",
                "t h", "num_accepted_tokens", "b", "out", "t h v",
                {"within": {name: range(1, 257) for name in "nhdv"}}),)),
    ),
    chunked_delta=(
        Operator("ChunkGatedDeltaRule", "query key value beta initial_state actual_seq_lengths g? "
            "-> out final_state", (real("scale_value?"),),
            Aclnn("aclnnChunkGatedDeltaRule", "query key value beta initialState actualSeqLengths "
                "gOptional? -> out finalState", (real("scaleValue", "scale_value"),),
                checks=((not_empty, "query", "value", "initial_state"),
                    (together, "query", "key", "value", "beta", "initial_state",
                        "actual_seq_lengths", "g", "out", "final_state", {"rows": _CHUNKED})),
                rules="hicann/ops-transformer attention/chunk_gated_delta_rule (docs, tiling)"),
            kernel="chunk_gated_delta_rule", infer=passed_through,
            checks=((fits, "query", "t n d", "key", "t n d", "value", "t h v", "beta", "t h",
                "initial_state", "s h v d", "actual_seq_lengths", "s", "g", "t h", "out", "t h v",
                "final_state", "s h v d", {"within": {"n": range(1, 65), "h": range(1, 65),
                "d": range(1, 129), "v": range(1, 129)}}), (shared_heads, "value", "key"))),
    ),
    causal_convolution=(
        Operator("CausalConv1d", "x weight bias? conv_states query_start_loc? cache_indices? "
            "initial_state_mode? num_accepted_tokens? -> y conv_states",
            (whole("activationMode?"), whole("padSlotId?"), whole("runMode?")),
            kernel="causal_conv1d", infer=convolved,
            checks=((together, "x", "query_start_loc", "cache_indices", "initial_state_mode",
                "num_accepted_tokens", {"rows": _PLACED}),
                (attribute_in, "activationMode", (0, 1)), (attribute_in, "runMode", (0, 1)),
                (same_dtype, "x", "weight", "bias", "conv_states", "y"),
                (fits, "x", "*rows c", "weight", "w c", "bias", "c", "conv_states", "s l c",
                    "y", "*rows c", {"within": {"w": range(2, 5), "c": range(16, 1 << 20, 16)}})),
            dtypes=dict.fromkeys(("A2", "A3"), _CONVOLVED)),
    ),
    layers=(
        Operator("DynamicRNN", "x w b seq_length? init_h? init_c? wci? wcf? wco? mask? -> "
            "y output_h output_c i? j? f? o? tanhc?", _LSTM, kernel="dynamic_rnn",
            infer=lstm_states,
            checks=((fits, "x", "t n i", "w", "k g", "b", "g", "y", "t n h", "output_h", "t n h",
                "output_c", "t n h"),)),
        Operator("DynamicGRUV2", "x weight_input weight_hidden bias_input? bias_hidden? "
            "seq_length? init_h? -> y output_h update? reset? new? hidden_new?", _GRU,
            kernel="dynamic_gru", infer=gru_states,
            checks=((fits, "x", "t n i", "weight_input", "i g", "weight_hidden", "h g",
                "bias_input", "g", "bias_hidden", "g", "y", "t n h", "output_h", "t n h"),)),
        Operator("Gru", "x wi wh bi? bh? batch_sizes? init_h? -> y output_h r z n n_h",
            (text("direction"), flag("is_training")), kernel="gru", infer=gru_states,
            checks=((fits, "x", "t n i", "wi", "i g", "wh", "h g", "bi", "g", "bh", "g",
                "y", "t n h", "output_h", "t n h"),)),
    ),
    framework=(Operator("LSTM", kernel="lstm"),),
    host=(
        Composed("aclnnLSTM", "input params* hx?* batchSizes? -> output hy cy iOut?* jOut?* fOut?* "
            "oOut?* hOut?* cOut?* tanhCOut?*", _LAYERS, "lstm", parts=_LISTED,
            checks=((rank_is, 3, "input", "output", "hy", "cy"),)),
        Composed("aclnnGRU", "input params* hx? batchSizes? -> output hy rOut?* zOut?* nOut?* "
            "hnOut?* hOut?*", (*_LAYERS[:4], flag("bidirection", "both_ways"), _LAYERS[5]), "gru",
            parts="numLayers bidirection",
            checks=((rank_is, 3, "input", "output", "hy", "hx"),)),
    ),
)
