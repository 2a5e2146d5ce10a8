"""What of MaxText is run and compiled: names, and keys of its base.yml with the values that they get."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

Overrides = Mapping[str, Any]
_QUIET: Overrides = {
    "run_name": "benchmark",
    "dataset_type": "synthetic",
    "enable_checkpointing": False,
    "enable_tensorboard": False,
    "jax_cache_dir": "",
    "log_config": False,
    "override_model_config": True,
}
_HERE: Overrides = {
    **_QUIET,
    "hardware": "cpu",
    "skip_jax_distributed_system": True,
    "attention": "dot_product",
    "steps": 4,
    "learning_rate": 1e-3,
    "per_device_batch_size": 2,
    "max_target_length": 32,
    "base_emb_dim": 64,
    "base_num_query_heads": 4,
    "base_num_kv_heads": 4,
    "head_dim": 16,
    "base_mlp_dim": 128,
    "base_num_decoder_layers": 2,
    "vocab_size": 256,
    "dtype": "float32",
    "weight_dtype": "float32",
    "dcn_data_parallelism": 1,
}
_EXPERTS: Overrides = {"num_experts": 8, "num_experts_per_tok": 2, "base_moe_mlp_dim": 64, "base_mlp_dim": 64}
_DENSE: Overrides = {"sparse_matmul": False, "megablox": False}
_DROPPING: Overrides = {**_DENSE, "capacity_factor": 1.25}
_DROPLESS: Overrides = {"sparse_matmul": True, "megablox": False}
_MIXTRAL: Overrides = {"model_name": "mixtral-8x7b", **_EXPERTS}
_DEEPSEEK: Overrides = {
    "model_name": "deepseek3-tiny",
    **_EXPERTS,
    "base_num_decoder_layers": 3,
    "first_num_dense_layers": 1,
    "mtp_num_layers": 1,
    "q_lora_rank": 32,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 16,
    "v_head_dim": 16,
}
_QWEN: Overrides = {"model_name": "qwen3-30b-a3b", **_EXPERTS}
_LLAMA4: Overrides = {
    "model_name": "llama4-17b-16e",
    **_EXPERTS,
    "num_experts_per_tok": 1,
    "base_num_decoder_layers": 4,
    "chunk_attn_window_size": 16,
}
_LORA: Overrides = {
    "lora.enable_lora": True,
    "lora.lora_rank": 4,
    "lora.lora_alpha": 8.0,
    "lora.lora_module_path": "decoder/layers/.*(self_attention/(query|out)|mlp/(wi_0|wo))",
}


def _mesh(**sizes: int) -> Overrides:
    """The sizes of the axes of 8 devices by their names in MaxText; `fsdp` is 1 unless it is given."""
    return {f"ici_{name}_parallelism": size for name, size in {"fsdp": 1, **sizes}.items()}


@dataclasses.dataclass(frozen=True)
class Run:
    """Some steps of training, or of another `program`, on 8 CPU devices; losses agree to `tolerance` (relative)."""

    overrides: Overrides
    program: str = "train"
    tolerance: float = 1e-5

    @property
    def arguments(self) -> list[str]:
        return _written({**_HERE, **self.overrides})


RUNS: dict[str, Run] = {
    "Llama, fsdp 8": Run(_mesh(fsdp=8)),
    "Llama, unrolled layers": Run({**_mesh(fsdp=2, tensor=4), "scan_layers": False}),
    "Llama, fsdp 2, tensor 4": Run(_mesh(fsdp=2, tensor=4)),
    "Llama, tensor 2, tensor-sequence 2": Run(_mesh(fsdp=2, tensor=2, tensor_sequence=2)),
    "Llama, context 4": Run(_mesh(fsdp=2, context=4)),
    "Llama, context 4, not balanced": Run({**_mesh(fsdp=2, context=4), "context_parallel_load_balance": False}),
    "Llama, pipeline": Run({**_mesh(fsdp=2, pipeline=4), "base_num_decoder_layers": 4, "num_pipeline_microbatches": 8}),
    "Llama, circular pipeline": Run(
        {**_mesh(fsdp=2, pipeline=4), "base_num_decoder_layers": 8, "num_pipeline_microbatches": 8}
    ),
    "Llama, pipeline, weights gathered once": Run(
        {
            **_mesh(fsdp=2, pipeline=4),
            "base_num_decoder_layers": 8,
            "num_pipeline_microbatches": 8,
            "pipeline_fsdp_ag_once": True,
        }
    ),
    "Llama, ZeRO-1": Run({**_mesh(data=8), "shard_optimizer_over_data": True}),
    "Llama, ZeRO-1, gradient accumulation": Run(
        {**_mesh(data=8), "shard_optimizer_over_data": True, "gradient_accumulation_steps": 2}
    ),
    "Llama, gradient accumulation": Run({**_mesh(fsdp=2, tensor=4), "gradient_accumulation_steps": 2}),
    "Llama, transposed fsdp": Run(_mesh(fsdp=2, fsdp_transpose=4)),
    "Llama, explicit axes": Run({**_mesh(fsdp=2, tensor=4), "shard_mode": "explicit"}),
    "Llama, DiLoCo": Run({**_mesh(diloco=2, fsdp=4), "enable_diloco": True, "diloco_sync_period": 2}),
    "Llama, bfloat16": Run({**_mesh(fsdp=2, tensor=4), "dtype": "bfloat16"}, tolerance=1e-3),
    "Llama, int8": Run({**_mesh(fsdp=2, tensor=4), "quantization": "int8"}, tolerance=2e-3),
    "Llama, int8 by qwix": Run(
        {**_mesh(fsdp=2, tensor=4), "quantization": "int8", "use_qwix_quantization": True}, tolerance=2e-3
    ),
    "Llama, fp8": Run({**_mesh(fsdp=2, tensor=4), "quantization": "fp8"}, tolerance=5e-3),
    "Llama, fp8 by qwix": Run(
        {**_mesh(fsdp=2, tensor=4), "quantization": "fp8", "use_qwix_quantization": True}, tolerance=5e-3
    ),
    "Llama, Muon": Run({**_mesh(fsdp=2, tensor=4), "opt_type": "muon"}, tolerance=1e-4),
    "Llama, optimizer on the host": Run({**_mesh(fsdp=8), "optimizer_memory_host_offload": True}),
    "Llama, LoRA": Run({**_mesh(fsdp=2, tensor=4), **_LORA}),
    "Llama, SFT": Run(_mesh(fsdp=2, tensor=4), program="sft"),
    "Llama, decoding": Run(
        {**_mesh(fsdp=2, tensor=4), "max_prefill_predict_length": 16}, program="decode", tolerance=1e-4
    ),
    "Gemma 2": Run({**_mesh(fsdp=2, tensor=4), "model_name": "gemma2-2b", "sliding_window_size": 16}),
    "Gemma 3": Run(
        {
            **_mesh(fsdp=2, tensor=4),
            "model_name": "gemma3-4b",
            "sliding_window_size": 16,
            "base_num_decoder_layers": 6,
        }
    ),
    "GPT-3": Run({**_mesh(fsdp=2, tensor=4), "model_name": "gpt3-52k", "trainable_position_size": 32}),
    "GPT-OSS, dense": Run(
        {**_mesh(fsdp=2, expert=4), "model_name": "gpt-oss-20b", **_EXPERTS, **_DENSE, "sliding_window_size": 16}
    ),
    "GPT-OSS, dropless": Run(
        {**_mesh(fsdp=2, expert=4), "model_name": "gpt-oss-20b", **_EXPERTS, **_DROPLESS, "sliding_window_size": 16}
    ),
    "GPT-OSS, dropless, fsdp 8": Run(
        {**_mesh(fsdp=8), "model_name": "gpt-oss-20b", **_EXPERTS, **_DROPLESS, "sliding_window_size": 16}
    ),
    "Mixtral, dense": Run({**_mesh(fsdp=2, expert=4), **_MIXTRAL, **_DENSE}),
    "Mixtral, dropping": Run({**_mesh(fsdp=2, expert=4), **_MIXTRAL, **_DROPPING}),
    "Mixtral, dropping, tensor 2": Run({**_mesh(fsdp=2, expert=2, tensor=2), **_MIXTRAL, **_DROPPING}),
    "Mixtral, dropless": Run({**_mesh(fsdp=2, expert=4), **_MIXTRAL, **_DROPLESS}),
    "Mixtral, dropless, fsdp 8": Run({**_mesh(fsdp=8), **_MIXTRAL, **_DROPLESS}),
    "DeepSeek, dropping": Run({**_mesh(fsdp=2, expert=4), **_DEEPSEEK, **_DROPPING}),
    "DeepSeek, dropless": Run({**_mesh(fsdp=2, expert=4), **_DEEPSEEK, **_DROPLESS}),
    "DeepSeek, dropless, fsdp 8": Run({**_mesh(fsdp=8), **_DEEPSEEK, **_DROPLESS}),
    "Qwen 3, dropping": Run({**_mesh(fsdp=2, expert=4), **_QWEN, **_DROPPING}),
    "Qwen 3, dropless": Run({**_mesh(fsdp=2, expert=4), **_QWEN, **_DROPLESS}),
    "Qwen 3, dropless, fsdp 8": Run({**_mesh(fsdp=8), **_QWEN, **_DROPLESS}),
    "Llama 4, dense": Run({**_mesh(fsdp=2, expert=4), **_LLAMA4, **_DENSE}),
    "Llama 4, dropless": Run({**_mesh(fsdp=2, tensor=2, expert=2), **_LLAMA4, **_DROPLESS}),
    "Llama 4, dropless, fsdp 8": Run({**_mesh(fsdp=8), **_LLAMA4, **_DROPLESS}),
}


@dataclasses.dataclass(frozen=True)
class Topology:
    """A training step compiled for TPUs that are not here; `target` is how gspmd calls the same topology."""

    overrides: Overrides
    topology: str
    target: str

    @property
    def arguments(self) -> list[str]:
        keys = {"compile_topology": self.topology, "compile_topology_num_slices": 1}
        return _written({**_QUIET, **_SIZES, **keys, **self.overrides})


_SIZES: Overrides = {"per_device_batch_size": 1, "max_target_length": 4096}
_BFLOAT16: Overrides = {"weight_dtype": "bfloat16"}
# An axis of the mesh is a part of a line of devices of the torus, which JAX does only where it is asked to.
_SPLIT_LINES: Overrides = {"allow_split_physical_axes": True}
_V5P8, _V5P64, _V5P256 = ("v5p-16", "tpu:v5p:2x2x2"), ("v5p-128", "tpu:v5p:4x4x4"), ("v5p-512", "tpu:v5p:4x8x8")
_V5E64, _V5E256 = ("v5e-64", "tpu:v5e:8x8"), ("v5e-256", "tpu:v5e:16x16")
_V6E64, _V6E256 = ("v6e-64", "tpu:v6e:8x8"), ("v6e-256", "tpu:v6e:16x16")
TOPOLOGIES: dict[str, Topology] = {
    f"{model}, {where[0]}": Topology({"model_name": name, **overrides}, *where)
    for model, name, where, overrides in (
        ("Llama 3 8B", "llama3-8b", _V5P8, _mesh(fsdp=2, tensor=4)),
        ("Llama 3 8B", "llama3-8b", _V5E64, _mesh(fsdp=64)),
        ("Llama 3 8B", "llama3-8b", _V6E64, {**_mesh(fsdp=16, tensor=4), **_SPLIT_LINES}),
        ("Llama 3 70B", "llama3-70b", _V5P64, _mesh(fsdp=16, tensor=4)),
        ("Llama 3 70B", "llama3-70b", _V5E256, {**_mesh(fsdp=64, tensor=4), **_SPLIT_LINES}),
        ("Llama 3 70B", "llama3-70b", _V6E256, _mesh(fsdp=256)),
        ("Mixtral 8x7B", "mixtral-8x7b", _V5P64, {**_mesh(fsdp=8, expert=8), **_SPLIT_LINES}),
        ("Mixtral 8x7B", "mixtral-8x7b", _V5E256, {**_mesh(fsdp=32, expert=8), **_SPLIT_LINES}),
        ("Mixtral 8x7B", "mixtral-8x7b", _V6E64, _mesh(fsdp=64)),
        ("DeepSeek 3", "deepseek3-671b", _V5P256, {**_mesh(fsdp=16, expert=16), **_BFLOAT16, **_SPLIT_LINES}),
        ("DeepSeek 3", "deepseek3-671b", _V5E256, {**_mesh(fsdp=16, expert=16), **_BFLOAT16}),
        ("DeepSeek 3", "deepseek3-671b", _V6E256, {**_mesh(fsdp=16, expert=16), **_BFLOAT16}),
        ("Gemma 3 27B", "gemma3-27b", _V5P64, _mesh(fsdp=16, tensor=4)),
        ("Gemma 3 27B", "gemma3-27b", _V5E256, _mesh(fsdp=256)),
        ("Gemma 3 27B", "gemma3-27b", _V6E64, _mesh(fsdp=64)),
        ("GPT-OSS 20B", "gpt-oss-20b", _V5P8, _mesh(fsdp=2, expert=4)),
        ("GPT-OSS 20B", "gpt-oss-20b", _V5E64, {**_mesh(fsdp=16, expert=4), **_SPLIT_LINES}),
        ("GPT-OSS 20B", "gpt-oss-20b", _V6E64, {**_mesh(fsdp=16, expert=4), **_SPLIT_LINES}),
    )
} | {
    f"Llama 3 8B, {name}, v5p-16": Topology({"model_name": "llama3-8b", **overrides}, *_V5P8)
    for name, overrides in (
        ("context gathered", _mesh(fsdp=2, context=4)),
        (
            "context in a ring",
            {
                **_mesh(fsdp=2, context=4),
                "context_parallel_strategy": "ring",
                "attention": "flash",
                "use_tokamax_splash": True,
                "packing": False,
            },
        ),
        (
            "context by Ulysses",
            {
                **_mesh(fsdp=2, context=4),
                "context_parallel_strategy": "ulysses",
                "context_parallel_load_balance": False,
                "attention": "flash",
                "use_tokamax_splash": True,
                "packing": False,
            },
        ),
        (
            "context by both",
            {
                **_mesh(fsdp=2, context=2, context_usp_ulysses=2),
                "context_parallel_strategy": "usp",
                "attention": "flash",
                "use_tokamax_splash": True,
                "packing": False,
            },
        ),
    )
}


def _written(overrides: Overrides) -> list[str]:
    return [f"{key}={value}" for key, value in overrides.items()]
