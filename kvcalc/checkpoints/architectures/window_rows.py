"""Defaults of the decoders with sliding or chunked layers, one row a model type.

The codes are those of `shape`, the rules after P those of `patterns`; the numbers are the defaults
of transformers' config classes (5.24).
"""

ROWS = {
    "afmoe": (
        "L=32 H=16 D=128? E=2048 V=200192 C=16384 W=1024 X=64 Y=6 "
        "P=every,4,global_attn_every_n_layers"
    ),
    "beam": "L=52 H=48 K=8 D=128 E=5120 V=151936 C=8192 W=512 X=256 Y=8 P=every_and_last,6",
    "cohere2": "L=40 H=64 E=8192 V=256000 C=8192 W=4096 P=every,4,sliding_window_pattern",
    "cohere2_moe": "L=40 H=64 D=128 E=8192 V=256000 C=8192 W=4096 X=8 Y=2 P=cohere2_moe",
    "cohere_compass_text": "L=40 H=64 E=8192 V=256000 C=8192 W=4096 P=full",
    "cwm": "L=64 H=48 K=8 D=128 E=6144 V=128256 C=131072 W=8192 P=each,4",
    "dots1": "L=62 H=32 K=32 E=4608 V=152064 C=2048 W=4096 P=above,62",
    "exaone4": "L=32 H=32 K=32 E=4096 V=102400 C=2048 W=4096 P=every,4,sliding_window_pattern",
    "exaone_moe": (
        "L=32 H=32 K=32 E=4096 V=102400 C=2048 W=4096 X=64 Y=8 P=every,4,sliding_window_pattern"
    ),
    "flint": "L=49 H=32 K=4 D=128 E=2048 V=150144 C=262144 W=513 X=256 Y=6 P=flint",
    "gemma2": "L=26 H=8 K=4 D=256 E=2304 V=256000 C=8192 W=4096 P=every,2",
    "gpt_oss": "L=36 H=64 K=8 D=64 E=2880 V=201088 C=131072 W=128 X=128 Y=4 P=every,2",
    "granite_swa": "L=24 H=20 K=4 E=2560 V=100352 C=8192 W=128 P=each,4",
    "granitemoe_swa": "L=32 H=32 E=4096 V=32000 C=2048 W=128 X=8 Y=2 P=each,4",
    "kolibri1": "L=50 H=48 K=4 D=128 E=2560 V=128000 C=262144 W=513 X=384 Y=6 P=every,5",
    "kyutai_speech_to_text": "L=48 H=32 E=2048 V=4001 C=750 W=375",
    "laguna": "L=40 H=48 K=8 D=128 E=2048 V=100352 C=131072 W=512 X=256 Y=8 P=full",
    "llama4_text": "L=48 H=40 K=8 D=128 E=5120 V=202048 C=131072 A=8192 X=16 Y=1 P=llama4",
    "mellum": "L=28 H=32 K=4 D=128 E=2304 V=98304 C=131072 W=1024 X=64 Y=8 P=full",
    "ministral": "L=32 H=32 K=8 E=4096 V=32000 C=131072 W=4096",
    "mistral": "L=32 H=32 K=8 E=4096 V=32000 C=131072 W=4096",
    "moshi": "L=32 H=32 E=4096 V=32000 C=3000 W=3000",
    "muse_glimmer_text": "L=52 H=32 K=2 D=128 E=6656 V=202048 C=131072 W=2048 P=from_end,4",
    "muse_spark_text": (
        "L=62 H=128 K=16 D=64 E=8192 V=202048 C=1048576 W=2048 X=256 Y=8 P=from_end,4"
    ),
    "olmo3": "L=32 H=32 E=4096 V=50304 C=2048 W=4096 P=every,4",
    "qwen2": "L=32 H=32 K=32 E=4096 V=151936 C=32768 W=4096 U=0 P=above,28",
    "qwen2_5_omni_text": "L=28 H=28 K=4 E=3584 V=152064 C=32768 W=32768 U=0 P=above,28",
    "qwen2_5_vl_text": "L=80 H=64 K=8 E=8192 V=152064 C=32768 W=4096 U=0 P=above,80",
    "qwen2_moe": "L=24 H=16 K=16 E=2048 V=151936 C=32768 W=4096 U=0 X=60 Y=4 P=odd_below,28",
    "qwen2_vl_text": "L=80 H=64 K=8 E=8192 V=152064 C=32768 W=4096 U=0 P=above,80",
    "qwen3": "L=32 H=32 K=32 D=128 E=4096 V=151936 C=32768 W=4096 U=0 P=above,28",
    "qwen3_moe": "L=24 H=32 K=4 E=2048 V=151936 C=32768 W=4096 U=0 X=128 Y=8",
    "smollm3": "L=36 H=16 K=4 E=2048 V=128256 C=32768 U=0 P=smollm3",
    "vaultgemma": "L=26 H=8 K=4 D=256 E=2304 V=256000 C=8192 W=4096 P=every,2",
    "voxtral_realtime_text": "L=32 H=32 K=8 E=4096 V=32000 C=131072 W=4096",
}
