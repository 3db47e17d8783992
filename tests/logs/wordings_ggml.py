"""Lines of Ollama and llama.cpp as they print them, by release, and what each says."""

from __future__ import annotations

from tests.logs.said import Said, gib, mib

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
    # ollama/ollama#11982, #11090, #12606
    Said('time=2025-08-22T10:07:07Z level=INFO source=runner.go:925 msg=load request="{Operation:'
         "commit Parallel:1 BatchSize:512 FlashAttention:true KvSize:75000 KvCacheType: "
         'GPULayers:37[ID:GPU-7a Layers:9(0..8) ID:GPU-0d Layers:28(9..36)] UseMmap:false}"', {},
         {"n_ctx": 75_000, "n_gpu_layers": 37}),
    Said('time=2025-07-18T14:50:58Z level=INFO source=ggml.go:672 msg="compute graph" '
         'backend=CUDA0 buffer_type=CUDA0 size="104.0 MiB"', mib(compute=104)),
    Said('time=2025-11-10T17:38:56Z level=INFO source=server.go:672 msg="loading model" "model '
         'layers"=25 requested=-1', {"model_layers": 25}),
    Said('time=2025-11-10T17:38:56Z level=INFO source=server.go:686 msg="gpu memory" id=GPU-ea '
         'available="15.0 GiB" free="15.4 GiB" minimum="457.0 MiB"', gib(free_at_start=15.4)),
    Said('time=2025-11-10T17:38:56Z level=INFO source=server.go:217 msg="enabling flash attention"',
         {}, {"flash_attn": True}),
    # ollama/ollama#9791, #10181
    Said('time=2025-03-16T23:04:14Z level=INFO source=sched.go:715 msg="new model will fit in '
         'available VRAM in single GPU, loading" gpu=GPU-f0 parallel=2 available=34336186368', {},
         {"n_seq_max": 2}),
    Said('time=2025-04-08T13:25:12Z level=INFO source=types.go:130 msg="inference compute" '
         'id=GPU-e8 library=cuda name="NVIDIA GeForce GTX 1070 Ti" total="7.9 GiB" '
         'available="7.7 GiB"', gib(memory=7.9, free_at_start=7.7)),
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
    # Summer of 2023: ggml-org/llama.cpp#1827, #1826, LostRuins/koboldcpp#283
    Said("llama_model_load_internal: n_ctx      = 2048", {}, {"n_ctx": 2048}),
    Said("llama_model_load_internal: mem required  = 2304.46 MB (+ 1608.00 MB per state)",
         mib(weights=2304.46, per_state=1608)),
    Said("llama_model_load_internal: allocating batch_size x 1 MB = 512 MB VRAM for the scratch "
         "buffer", mib(scratch=512)),
    Said("llama_model_load_internal: total VRAM used: 3217 MB", mib(breakdown_total=3217)),
    Said("llm_load_tensors: VRAM used           = 4095.06 MiB", mib(weights_vram=4095.06)),
    # ggml-org/llama.cpp#26297, #22319, #17643, #23792, ikawrakow/ik_llama.cpp#259
    Said("1.07.304.130 I srv    load_model: initializing, n_slots = 2, n_ctx_slot = 50176, "
         "kv_unified = 'false'", {},
         {"n_seq_max": 2, "n_ctx_seq": 50_176, "kv_unified": False, "n_ctx": 100_352}),
    Said("llama_context: n_ctx_seq (393216) < n_ctx_train (1048576) -- the full capacity of the "
         "model will not be utilized", {}, {"n_ctx_seq": 393_216}),
    Said("common_init_from_params: setting dry_penalty_last_n to ctx_size = 4096", {},
         {"n_ctx": 4096}),
    Said("llama_memory_recurrent: size =  299.25 MiB (     2 cells,  64 layers,  2 seqs  0 rs_seq),"
         " R (f32):   11.25 MiB, S (f32):  288.00 MiB", mib(state_cache=299.25), {"n_seq_max": 2}),
    Said('INFO [ init] new slot | tid="13" timestamp=17 id_slot=0 n_ctx_slot=32768', {},
         {"n_ctx_seq": 32_768}),
    # Anbeeld/beellama.cpp#74
    Said("0.00.166.518 I   - CUDA0   : NVIDIA GeForce RTX 5060 Ti (16310 MiB, 15159 MiB free)",
         mib(memory=16_310, free_at_start=15_159)),
    # ggml-org/llama.cpp#15860, #23679, #22546
    Said("llama_print_memory_breakdown:   - CUDA1 (RTX 4090):  24080 = 9868 + (13756 = 13169 + "
         "     38 +     548) +         456",
         mib(memory=24_080, breakdown_model=13_169, breakdown_context=38, breakdown_compute=548)),
    Said("llama_print_memory_breakdown:   - CPU (EPYC 7742):  515628              72 =     0 + "
         "     57 +      15", mib(breakdown_context=57, breakdown_compute=15)),
    Said("common_params_fit_impl:   - CUDA0 (NVIDIA GeForce RTX 4090):  24080 total,  22450 used, "
         "  1157 free vs. target of   1024", mib(memory=24_080, projected=22_450)),
    Said("  Device 0: NVIDIA L4, compute capability 8.9, VMM: yes, VRAM: 22478 MiB",
         mib(memory=22_478)),
    Said("srv    load_model: [spec] estimated memory usage of MTP context is 581.77 MiB",
         mib(draft_context=581.77)),
    Said("srv    load_model: [mtmd] estimated worst-case memory usage of mmproj is 1136.09 MiB "
         "(took 21.91 ms)", mib(projector=1136.09)),
    Said("0.00.043.375 I ggml_metal_init: recommendedMaxWorkingSetSize  = 11453.25 MB",
         {"usable": 11_453_250_000}),
    Said("generate: n_ctx = 512, n_batch = 512, n_predict = -1, n_keep = 0", {}, {"n_ctx": 512}),
    Said("llama_kv_cache_iswa: creating     SWA KV cache, size = 6144 cells", {"kv_cells": 6144}),
)  # fmt: skip
