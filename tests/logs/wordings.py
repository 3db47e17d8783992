"""Lines as the engines print them, by release, and what each says: a table for the tests."""

from __future__ import annotations

from typing import Any, NamedTuple

GIB, MIB = 2**30, 2**20


class Said(NamedTuple):
    """A line, the figures in it (as printed, with their unit) and the settings."""

    line: str
    figures: dict[str, float]
    settings: dict[str, Any] = {}  # noqa: RUF012 - never changed; a NamedTuple default


def gib(**figures: float) -> dict[str, float]:
    """Figures printed in GiB, in bytes."""
    return {name: value * GIB for name, value in figures.items()}


def mib(**figures: float) -> dict[str, float]:
    """Figures printed in MiB, in bytes."""
    return {name: value * MIB for name, value in figures.items()}


VLLM = (
    Said("INFO 01-01 00:00:00 model_runner.py:1] Loading model weights took 12.5523 GB",
         gib(weights=12.5523)),
    Said("INFO 02-29 19:21:45 model_runner.py:90] Loading model weights took 244.61 MB",
         mib(weights=244.61)),
    Said("INFO 12-13 19:54:18 worker.py:243] total_gpu_memory     79.22GiB", gib(memory=79.22)),
    Said("INFO 12-13 19:54:18 worker.py:243] the current vLLM instance can use    71.29GiB",
         gib(usable=71.29)),
    Said("INFO 12-13 19:54:18 worker.py:243] model weights take   14.96GiB",
         gib(weights_rounded=14.96)),
    Said("INFO 12-13 19:54:18 worker.py:243] non_torch_memory     1.79GiB", gib(non_torch=1.79)),
    Said("INFO 12-13 19:54:18 worker.py:243] PyTorch activation peak memory       1.26GiB",
         gib(activation=1.26)),
    Said("INFO 12-13 19:54:18 worker.py:243] available_kv_cache_memory    53.29GiB",
         gib(kv_pool=53.29)),
    Said("INFO 04-01 00:00:00 gpu_model_runner.py:1] Model loading took 15.2683 GB and 9.1 seconds",
         gib(weights=15.2683)),
    Said("INFO 05-01 [gpu_model_runner.py:1] Model loading took 15.2683 GiB and 9.1 seconds",
         gib(weights=15.2683)),
    Said("(EngineCore pid=9) INFO [gpu_model_runner.py:5515] Model loading took 51.1 GiB memory and"
         " 41.9 seconds", gib(weights=51.1)),
    Said("Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=15.34GiB "
         "peak_torch_memory=17.06GiB memory_usage_post_profile=15.35GiB non_torch_memory=0.35GiB "
         "kv_cache_size=3.81GiB gpu_memory_utilization=0.90",
         gib(memory=23.58, used_at_start=15.34, torch_peak=17.06, used_after_profile=15.35,
             non_torch=0.35, kv_pool=3.81), {"gpu_memory_utilization": 0.9}),
    Said("the current vLLM instance can use total_gpu_memory (44.39GiB) x gpu_memory_utilization "
         "(0.92) = 40.84GiB", gib(memory=44.39, usable=40.84), {"gpu_memory_utilization": 0.92}),
    Said("model weights take 21.67GiB; non_torch_memory takes 0.36GiB; PyTorch activation peak "
         "memory takes 15.73GiB; the rest of the memory reserved for KV Cache is 3.09GiB.",
         gib(weights_rounded=21.67, non_torch=0.36, activation=15.73, kv_pool=3.09)),
    Said("INFO 08-17 [gpu_worker.py:1] Available KV cache memory: 5.0 GiB", gib(kv_pool=5)),
    Said("INFO 11-02 [gpu_worker.py:1] Available KV cache memory: -2.77 GiB", gib(kv_pool=-2.77)),
    Said("Estimated CUDA graph memory: 1.55 GiB total", gib(graphs_estimated=1.55)),
    Said("In v0.19, CUDA graph memory profiling will be enabled by default (see #1). To keep the KV"
         " cache, increase --gpu-memory-utilization from 0.9000 to 0.9237.", {},
         {"gpu_memory_utilization": 0.9}),
    Said("CUDA graph memory profiling is enabled (default since v0.21.0). The current "
         "--gpu-memory-utilization=0.9200 is equivalent to --gpu-memory-utilization=0.9094 without "
         "it. To keep it, increase --gpu-memory-utilization to 0.9306.", {},
         {"gpu_memory_utilization": 0.92}),
    Said("CUDA graph pool memory: 0.71 GiB (actual), 1.55 GiB (estimated), difference: 0.84 GiB "
         "(119.3%).", gib(graphs=0.71, graphs_estimated=1.55)),
    Said("Free memory on device (79.99/80.0 GiB) on startup. Desired GPU memory utilization is "
         "(0.92, 73.6 GiB). Actual usage is 51.66 GiB for consumed memory (weights + non-torch), "
         "2.4 GiB for peak activation, and 0.71 GiB for CUDAGraph memory. Replace "
         "gpu_memory_utilization config with `--kv-cache-memory=20064085607` (18.69 GiB) to fit "
         "into requested memory, or `--kv-cache-memory=26927570944` (25.08 GiB) to fully utilize "
         "gpu memory. Current kv cache memory in use is 19.54 GiB.",
         gib(free_at_start=79.99, memory=80.0, usable=73.6, consumed=51.66,
             activation_and_graphs=2.4, graphs=0.71, kv_pool=19.54),
         {"gpu_memory_utilization": 0.92}),
    Said("Free memory on device (22.9/23.58 GiB) on startup. Desired GPU memory utilization is "
         "(0.9, 21.22 GiB). Actual usage is 14.99 GiB for weight, 0.4 GiB for peak activation, "
         "0.06 GiB for non-torch memory, and 0.21 GiB for CUDAGraph memory. Replace "
         "gpu_memory_utilization config with `--kv-cache-memory=6` to fit into requested memory, or"
         " `--kv-cache-memory=7` to fully utilize gpu memory. Current kv cache memory in use is "
         "6195019776 bytes.",
         {**gib(weights_rounded=14.99, activation=0.4, non_torch=0.06, graphs=0.21),
          "kv_pool": 6_195_019_776}),
    Said("Memory profiling takes 17.96 seconds. Total non KV cache memory: 59.82GiB; torch peak "
         "memory increase: 2.68GiB; non-torch forward increase memory: 0.27GiB; weights memory: "
         "56.88GiB.",
         gib(beside_kv=59.82, activation=2.68, non_torch=0.27, weights_rounded=56.88)),
    Said("worker init memory snapshot: torch_peak=0.0GiB, free_memory=78.68GiB, "
         "total_memory=79.19GiB, cuda_memory=0.51GiB, torch_memory=0.0GiB, "
         "non_torch_memory=0.51GiB",
         gib(free_at_start=78.68, memory=79.19)),
    Said("DEBUG [gpu_worker.py:285] worker requested memory: 75.23GiB", gib(usable=75.23)),
    Said("Initial free memory: 47.03 GiB; Requested memory: 0.90 (util), 42.64 GiB",
         gib(free_at_start=47.03, usable=42.64), {"gpu_memory_utilization": 0.9}),
    Said("Initial free memory 78.79 GiB, reserved 4.0 GiB memory for KV Cache as specified by "
         "kv_cache_memory_bytes config and skipped memory profiling.",
         gib(free_at_start=78.79, kv_pool=4)),
    Said("INFO [gpu_model_runner.py:1] Graph capturing finished in 7 secs, took 2.67 GiB",
         gib(graphs=2.67)),
    Said("INFO 12-01 llm_engine.py:73] # GPU blocks: 7449, # CPU blocks: 512",
         {"kv_blocks": 7449, "cpu_blocks": 512}),
    Said("INFO executor_base.py:110] # CUDA blocks: 5519, # CPU blocks: 9362",
         {"kv_blocks": 5519, "cpu_blocks": 9362}),
    Said("INFO executor_base.py:112] # cuda blocks: 27392, # CPU blocks: 2048",
         {"kv_blocks": 27_392, "cpu_blocks": 2048}),
    Said("INFO executor_base.py:112] # npu blocks: 4106, # CPU blocks: 585",
         {"kv_blocks": 4106, "cpu_blocks": 585}),
    Said("INFO cpu_executor.py:1] # CPU blocks: 4369, # CPU blocks: 0",
         {"kv_blocks": 4369, "cpu_blocks": 0}),
    Said("INFO kv_cache_utils.py:395] # GPU blocks: 1381", {"kv_blocks": 1381}),
    Said("INFO 02-19 23:56:55 kv_cache_utils.py:524] GPU KV cache size: 2,042,016 tokens",
         {"kv_tokens": 2_042_016}),
    Said("Maximum concurrency for 8192 tokens per request: 9.89x", {"max_concurrency": 9.89},
         {"max_model_len": 8192}),
    Said("GPU KV cache size: 222,822 tokens, Maximum concurrency for 131,072 tokens per request: "
         "1.70x", {"kv_tokens": 222_822, "max_concurrency": 1.7}, {"max_model_len": 131_072}),
    Said("CPU KV cache size: 65,536 tokens", {"kv_tokens": 65_536}),
    Said("GPU + host KV cache size: 1,000,000 tokens", {"kv_tokens": 1_000_000}),
    Said("vllm cache_config_info with initialization after num_gpu_blocks is: 28407",
         {"kv_blocks": 28_407}),
    Said("Overriding num_gpu_blocks=5000 with num_gpu_blocks_override=600", {},
         {"num_gpu_blocks_override": 600}),
    Said("Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512", {}),
    Said("Add 8 padding layers, may waste at most 15.38% KV cache memory",
         {"padding_layers": 8, "padding_waste": 15.38}),
    Said("Setting attention block size to 784 tokens to ensure that attention page size is >= mamba"
         " page size.", {}, {"block_size": 784}),
    Said("Padding mamba page size by 0.13% to ensure", {"mamba_padding": 0.13}),
    Said("Multiplying the GPU KV cache size by the cp_world_size 2 (pcp_world_size 1 * 2).", {},
         {"decode_context_parallel_size": 2}),
    Said("Using max model len 24000", {}, {"max_model_len": 24_000}),
    Said("Chunked prefill is enabled with max_num_batched_tokens=2048.", {},
         {"max_num_batched_tokens": 2048}),
    Said("INFO 05 hpu_worker.py: Free device memory: 79.22 GiB, 71.30 GiB usable "
         "(gpu_memory_utilization=0.9), 7.13 GiB reserved for HPUGraphs "
         "(VLLM_GRAPH_RESERVED_MEM=0.1), 64.17 GiB reserved for KV cache",
         gib(free_after_weights=79.22, usable=71.3, graphs_estimated=7.13, kv_pool=64.17)),
)  # fmt: skip
SGLANG = (
    Said("[gpu_id=0] Load weight begin. avail mem=23.32 GB", gib(free_before_weights=23.32)),
    Said("[gpu_id=0] Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=8.07 "
         "GB", gib(free_after_weights=8.07), {"dtype": "bfloat16"}),
    Said("[2025-03-01 00:00:00 TP2] Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, "
         "avail mem=6.01 GB, mem usage=15.54 GB.", gib(free_after_weights=6.01, weights=15.54)),
    Said("[2026-04-14 16:08:49 TP1] Load weight end. elapsed=5.46 s, "
         "type=Qwen3_5ForConditionalGeneration, avail mem=14.08 GB, mem usage=8.85 GB.",
         gib(free_after_weights=14.08, weights=8.85)),
    Said("[2026-04-14 16:08:49 TP1] Load weight end. elapsed=5.46 s, type=X, quant=fp8, "
         "avail mem=26.47 GB, mem usage=78.99 GB", gib(weights=78.99)),
    Said("Use sliding window memory pool. full_layer_tokens=375360, swa_layer_tokens=300288",
         {"full_tokens": 375_360, "swa_tokens": 300_288}),
    Said("Use sliding window memory pool (all SWA). swa_layer_tokens=300288",
         {"swa_tokens": 300_288}),
    Said("Mamba Cache is allocated. max_mamba_cache_size: 186, conv_state size: 0.10GB, ssm_state "
         "size: 4.38GB ", {"state_slots": 186, **gib(conv_state=0.1, ssm_state=4.38)}),
    Said("Mamba Cache is allocated. max_mamba_cache_size: 64, conv_state size: 0.07GB, ssm_state "
         "size: 3.05GB intermediate_ssm_state_cache size: 48.75GB intermediate_conv_window_cache "
         "size: 0.43GB ", gib(ssm_state=3.05, draft_ssm_state=48.75, draft_conv_state=0.43)),
    Said("KV Cache is allocated. #tokens: 903439, K size: 13.79 GB, V size: 13.79 GB",
         {"kv_tokens": 903_439, **gib(kv_key=13.79, kv_value=13.79, kv_pool=27.58)}),
    Said("KV Cache is allocated. #tokens: 2454421, KV size: 160.63 GB",
         {"kv_tokens": 2_454_421, **gib(kv_latent=160.63, kv_pool=160.63)}),
    Said("KV Cache is allocated. dtype: torch.float8_e4m3fn, #tokens: 37081, K size: 1.10 GB, "
         "V size: 1.10 GB", {"kv_tokens": 37_081, **gib(kv_key=1.1)},
         {"kv_cache_dtype_used": "float8_e4m3fn"}),
    Said("SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 29664, K size: 1.59 GB, V "
         "size: 1.59 GB", {"kv_tokens": 29_664, **gib(kv_pool=3.18)}),
    Said("KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 9, K size: 99.0 GB, V size: 99.0"
         " GB", {}),
    Said("Memory pool end. avail mem=11.22 GB", gib(free_after_pool=11.22)),
    Said("Capture cuda graph end. Time elapsed: 8.1 s. avail mem=2.09 GB",
         gib(free_after_graphs=2.09)),
    Said("Capture cuda graph end. Time elapsed: 8.1 s. avail mem=2.09 GB. mem usage=0.93 GB.",
         gib(free_after_graphs=2.09, graphs=0.93)),
    Said("Capture cuda graph end. Time elapsed: 17.13 s. mem usage=0.89 GB. avail mem=10.26 GB.",
         gib(free_after_graphs=10.26, graphs=0.89)),
    Said("Capture target decode CUDA graph end. elapsed=21.39 s, mem usage=1.66 GB",
         gib(graphs=1.66)),
    Said("max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384, "
         "max_running_requests=2049, context_len=40960",
         {"max_total_num_tokens": 46_611, "max_running_requests": 2049},
         {"chunked_prefill_size": 2048, "context_length": 40_960}),
    Said("max_total_num_tokens=20480, chunked_prefill_size=8192, max_prefill_tokens=16384, "
         "max_running_requests=128, context_len=32768, available_gpu_mem=76.95 GB",
         {"max_total_num_tokens": 20_480, **gib(free_at_end=76.95)}),
    Said("max_total_tokens=900000 is larger than the profiled value -120. Use the profiled value "
         "instead.", {"profiled_tokens": -120}, {"max_total_tokens": 900_000}),
    Said("Init torch distributed ends. mem usage=1.25 GB", gib(communication=1.25)),
)  # fmt: skip
TENSORRT = (
    Said("[TensorRT-LLM][INFO] [MemUsageChange] TensorRT-managed allocation in engine "
         "deserialization: CPU +0, GPU +12853, now: CPU 0, GPU 12856 (MiB)", mib(weights=12_853)),
    Said("[TensorRT-LLM][INFO] Loaded engine size: 8680 MiB", mib(weights=8680)),
    Said("[TRT-LLM] [I] Rank 0 uses 37.2 GB for model weights.", gib(weights=37.2)),
    Said("[TRT-LLM] [I] Memory used after loading model weights (inside torch) in memory usage "
         "profiling: 15.02 GiB", gib(weights=15.02)),
    Said("[TensorRT-LLM][INFO] [MemUsageChange] Allocated 612.02 MiB for execution context memory.",
         mib(execution_context=612.02)),
    Said("[TensorRT-LLM][INFO] Allocate 60649635840 bytes for k/v cache. ",
         {"kv_pool": 60_649_635_840}),
    Said("[TensorRT-LLM][INFO] Using 115680 tokens in paged KV cache.", {"kv_tokens": 115_680}),
    Said("[TensorRT-LLM][INFO] Using 12800 total tokens in paged KV cache, and 17 blocks per "
         "sequence", {"kv_tokens": 12_800, "blocks_per_sequence": 17}),
    Said("[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: "
         "79.10 GiB, available: 70.48 GiB", gib(memory=79.1, free_after_weights=70.48)),
    Said("[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 8219",
         {"kv_blocks": 8219}),
    Said("[TensorRT-LLM][INFO] Number of blocks in KV cache secondary pool: 0, onboard blocks to "
         "primary memory before reuse: true", {"cpu_blocks": 0}),
    Said("[TensorRT-LLM][INFO] Number of tokens per block: 32.", {}, {"tokens_per_block": 32}),
    Said("[TensorRT-LLM][INFO] Max KV cache pages per sequence: 2048",
         {"blocks_per_sequence": 2048}),
    Said("[TensorRT-LLM][INFO] Max KV cache blocks per sequence: 129 [window size=8232], tokens per"
         " block=64, primary blocks=259, secondary blocks=0",
         {"blocks_per_sequence": 129, "kv_blocks": 259}, {"tokens_per_block": 64}),
    Said("[TensorRT-LLM][INFO] [MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV "
         "cache (263008)", {"kv_tokens": 263_008, **gib(kv_pool=16.05)}),
    Said("[TRT-LLM] [I] Peak memory during memory usage profiling (torch + non-torch): 17.15 GiB, "
         "available KV cache memory when calculating max tokens: 56.27 GiB, fraction is set 0.9, kv"
         " size is 131072", gib(peak=17.15, kv_pool_wanted=56.27),
         {"free_gpu_memory_fraction": 0.9}),
)  # fmt: skip
LMDEPLOY = (
    Said("[TM][INFO] [BlockManager] block_size = 9 MB", mib(block_bytes=9)),
    Said("[TM][INFO][0812 10:11:12.131415] [BlockManager] block_size = 9.000 MB",
         mib(block_bytes=9)),
    Said("[TM][INFO] [BlockManager] max_block_count = 863", {"kv_blocks": 863}),
    Said("[TM][INFO] [BlockManager] chunk_size = 863", {}, {"cache_chunk_size": 863}),
    Said("[TM][INFO][1001 10:00:00.000001] Object cache budget: 18432.50 MB from free 23040.62 MB "
         "and ratio 0.80", mib(kv_pool=18_432.5, free_after_weights=23_040.62),
         {"cache_max_entry_count": 0.8}),
    Said("CacheConfig(max_batches=256, block_size=64, num_cpu_blocks=0, num_gpu_blocks=1274, "
         "cache_max_entry_count=0.8)", {"kv_blocks": 1274},
         {"max_batch_size": 256, "cache_block_seq_len": 64}),
)  # fmt: skip
OLLAMA = (
    Said('time=2025-01-01T00:00:00Z level=INFO source=memory.go:356 msg="offload to cuda" '
         'layers.requested=-1 layers.model=33 layers.offload=20 layers.split="" '
         'memory.available="[7.3 GiB]" memory.gpu_overhead="0 B" memory.required.full="9.5 GiB" '
         'memory.required.partial="7.1 GiB" memory.required.kv="1.0 GiB" '
         'memory.required.allocations="[7.1 GiB]" memory.weights.total="4.9 GiB" '
         'memory.weights.repeating="4.5 GiB" memory.weights.nonrepeating="411.0 MiB" '
         'memory.graph.full="560.0 MiB" memory.graph.partial="677.5 MiB"',
         {"gpu_layers": 20, "model_layers": 33, **gib(free_at_start=7.3, estimated_full=9.5,
          estimated_kv=1), **mib(estimated_compute=560)}),
    Said("time=2025-05-01T00:00:00Z level=INFO source=server.go:168 msg=offload library=metal "
         'layers.requested=-1 layers.model=41 layers.offload=41 memory.required.kv="5.0 GiB"',
         {"gpu_layers": 41, **gib(estimated_kv=5)}),
    Said('time=2025-10-01T00:00:00Z level=INFO source=backend.go:310 msg="model weights" '
         'device=CUDA0 size="8.1 GiB"', gib(weights=8.1)),
    Said('time=2025-04-01T00:00:00Z level=INFO source=ggml.go:300 msg="model weights" '
         'buffer=CUDA0 size="8.1 GiB"', gib(weights=8.1)),
    Said('time=2025-10-01T00:00:00Z level=INFO source=device.go:251 msg="kv cache" device=CPU '
         'size="640.0 MiB"', mib(kv_pool=640)),
    Said('time=2025-10-01T00:00:00Z level=INFO source=runner.go:1 msg=load request="{Operation:'
         "alloc LoraPath:[] Parallel:2 BatchSize:512 FlashAttention:true KvSize:16384 "
         'KvCacheType:q8_0 NumThreads:8 GPULayers:41[ID:0 Layers:41(0..40)]}"', {},
         {"n_ctx": 16_384, "n_seq_max": 2, "type_k": "q8_0", "flash_attn": True}),
    Said('time=2026-01-01T00:00:00Z level=INFO source=routes.go:1 msg="vram-based default context" '
         'total_vram="24.0 GiB" default_num_ctx=32768', {}, {"default_num_ctx": 32_768}),
)  # fmt: skip
LLAMACPP = (
    Said("llm_load_tensors: mem required  = 3891.24 MiB", mib(weights=3891.24)),
    Said("llm_load_tensors: VRAM used: 4474.94 MiB", mib(weights_vram=4474.94)),
    Said("llm_load_tensors:      CUDA0 buffer size = 4095.05 MiB", mib(weights=4095.05)),
    Said("load_tensors:   CPU_Mapped model buffer size =   345.14 MiB", mib(weights=345.14)),
    Said("load_tensors:       Meta() model buffer size =   345.14 MiB", mib(weights=345.14)),
    Said("0.01.234.567 I load_tensors: RPC0[192.0.2.7:50052] model buffer size = 656.00 MiB",
         mib(weights=656)),
    Said("llama_new_context_with_model: kv self size  =  256.00 MiB", mib(kv_cache=256)),
    Said("llama_kv_cache_init: VRAM kv self = 256.00 MB", mib(kv_pool=256)),
    Said("llama_kv_cache_init:      CUDA0 KV buffer size =   128.00 MiB", mib(kv_pool=128)),
    Said("llama_init_from_model: KV self size  =  128.00 MiB, K (f16):   64.00 MiB, V (q4_0):   "
         "18.00 MiB", mib(kv_cache=128, kv_key=64, kv_value=18),
         {"type_k": "f16", "type_v": "q4_0"}),
    Said("llama_new_context_with_model: KV self size  =   64.81 MiB, c^KV (f16):   34.31 MiB, "
         "kv^T (f16):   30.50 MiB", mib(kv_cache=64.81, kv_latent=34.31,
                                        kv_latent_transposed=30.5)),
    Said("llama_kv_cache_unified: kv_size = 16384, type_k = 'q8_0', type_v = 'q8_0', n_layer = 16, "
         "can_shift = 1, padding = 256", {"kv_cells": 16_384, "kv_layers": 16},
         {"type_k": "q8_0", "type_v": "q8_0"}),
    Said("llama_kv_cache_recurrent: KV self size =    0.41 MiB, K (f32):    0.04 MiB, V (f32):    "
         "0.38 MiB", mib(state_cache=0.41, state_conv=0.04, state_ssm=0.38)),
    Said("llama_kv_cache_unified: size = 1280.00 MiB (  4096 cells,  80 layers,  1 seqs), K (f16): "
         "640.00 MiB, V (f16):  640.00 MiB",
         {"kv_cells": 4096, "kv_layers": 80, **mib(kv_cache=1280)}, {"n_seq_max": 1}),
    Said("llama_kv_cache: size =  272.00 MiB (131072 cells,   1 layers,  4/1 seqs), K (q8_0):  "
         "136.00 MiB, V (q8_0):  136.00 MiB", {"kv_cells": 131_072, **mib(kv_cache=272)},
         {"n_seq_max": 4, "kv_unified": True}),
    Said("llama_memory_recurrent: size =  598.50 MiB (     4 cells,  64 layers,  4 seqs), R (f32): "
         "  22.50 MiB, S (f32):  576.00 MiB", mib(state_cache=598.5, state_conv=22.5,
                                                   state_ssm=576)),
    Said("llama_memory_recurrent: size =    0.41 MiB (     1 cells,   8 layers,  1 seqs  0 rs_seq),"
         " R (f32):    0.04 MiB, S (f32):    0.38 MiB, P (f32):    0.01 MiB",
         mib(state_cache=0.41, state_extra=0.01)),
    Said("llama_memory_recurrent:      CUDA0 RS buffer size =   598.50 MiB", mib(state=598.5)),
    Said("llama_context:  CUDA_Host  output buffer size =     0.99 MiB", mib(output=0.99)),
    Said("sched_reserve:      CUDA0 compute buffer size =  495.00 MiB", mib(compute=495)),
    Said("llama_new_context_with_model: compute buffer total size = 159.19 MiB",
         mib(compute=159.19)),
    Said("llama_new_context_with_model: VRAM scratch buffer: 156.00 MiB", mib(scratch=156)),
    Said("llama_new_context_with_model: total VRAM used: 4886.94 MiB (model: 4474.94 MiB, context: "
         "412.00 MiB)", mib(breakdown_total=4886.94, breakdown_context=412)),
    Said("~llama_context: CUDA0 compute buffer size is 495.0000 MiB, matches expectation of "
         "495.0000 MiB", {}),
    Said("llama_context: n_ctx_per_seq = 2048", {}, {"n_ctx_seq": 2048}),
    Said("llama_context: flash_attn    = enabled", {}, {"flash_attn": True}),
    Said("llama_context: kv_unified    = true", {}, {"kv_unified": True}),
    Said("llm_load_tensors: offloaded 27/62 layers to GPU", {"gpu_layers": 27, "model_layers": 62},
         {"n_gpu_layers": 27}),
    Said("llama_memory_breakdown_print: |   - CUDA0 (RTX 4090)   | 24077 =  945 + (19187 = 17904 + "
         "    384 +     898) +        3945 |",
         mib(memory=24_077, breakdown_model=17_904, breakdown_context=384, breakdown_compute=898)),
    Said("llama_memory_breakdown_print: |   - Host               |                 58271 = 58259 + "
         "      0 +      12                |", mib(breakdown_model=58_259, breakdown_compute=12)),
    Said("common_params_fit_impl: projected to use 21832 MiB of device memory vs. 30330 MiB of free"
         " device memory", mib(projected=21_832, free_at_start=30_330)),
    Said("llama_lora_adapter_init_internal:      CUDA0 LoRA buffer size =   160.00 MiB",
         mib(lora=160)),
    Said("alloc_compute_meta:      CUDA0 compute buffer size =   248.10 MiB", mib(compute=248.1)),
)  # fmt: skip
ENGINES = {
    "vllm": VLLM, "sglang": SGLANG, "tensorrt-llm": TENSORRT, "lmdeploy": LMDEPLOY,
    "ollama": OLLAMA, "llama.cpp": LLAMACPP,
}  # fmt: skip
