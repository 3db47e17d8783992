"""Where a multimodal or composite config keeps its language model, and which type that is.

Towers for images and sound hold no KV: their tokens count as text tokens.
"""

from __future__ import annotations

#: Wrapper → the type of its language model where the nested config names none, and the defaults
#: that hold where there is no nested config at all.
WRAPPERS: dict[str, str] = {
    "apertus1p5": "apertus1p5_text", "aria": "aria_text", "audioflamingo3": "qwen2",
    "aya_vision": "cohere2", "blip": "blip_text_model", "blip-2": "opt", "canary": "canary_decoder",
    "cohere2_vision": "cohere2", "cohere_compass": "cohere_compass_text",
    "colpali": "gemma L=18 H=8 K=1 E=2048 V=257152", "colqwen2": "qwen2_vl_text",
    "cosmos3_edge": "cosmos3_edge_text", "cosmos3_omni": "qwen3_vl_text",
    "deepseek_ocr2": "deepseek_ocr2_text", "deepseek_vl": "llama", "deepseek_vl_hybrid": "llama",
    "deepseek_vl_v2": "deepseek_v2", "dia": "dia_decoder",
    "diffusion_gemma": "diffusion_gemma_text", "dots3_note": "dots3_note_text",
    "emu3": "emu3_text_model", "encoder-decoder": "bert", "ernie4_5_vl_moe": "ernie4_5_vl_moe_text",
    "exaone4_5": "exaone4", "fast_vlm": "qwen2 L=28 H=28 K=4 E=3584 V=152128",
    "florence2": "bart", "fun_asr_nano": "qwen3 L=28 H=16 K=8 E=1024 C=40960",
    "fuyu": "persimmon", "gemma3": "gemma3_text", "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text", "gemma4_unified": "gemma4_unified_text", "glm46v": "glm4v_text",
    "glm4v": "glm4v_text", "glm4v_moe": "glm4v_moe_text", "glm5_next": "glm5_next_text",
    "glm_ocr": "glm_ocr_text", "glmasr": "llama L=28 H=16 K=4 E=2048 V=59264 C=8192",
    "glmga": "glm4v_text", "got_ocr2": "qwen2 L=24 H=16 K=16 E=1024 V=151860",
    "granite4_vision": "granite4_vision_text", "granite_docling": "granite_docling_text",
    "granite_speech": "granite", "granite_speech_plus": "granite", "hunyuan_vl": "hunyuan_vl_text",
    "hy_v4_vl": "hy_v4_vl_text", "hyperclovax_vision_v2": "hyperclovax",
    "idefics2": "mistral C=32768", "idefics3": "llama", "inkling2": "inkling2_text",
    "inkling2_loop": "inkling2_loop_text", "inkling_mm_model": "inkling_text",
    "instructblip": "opt", "instructblipvideo": "opt", "internvl": "qwen2", "internvl_chat": "",
    "janus": "llama", "jev": "qwen3_5_text", "kimi_k25": "deepseek_v3", "kimi_vl": "deepseek_v3",
    "kosmos-2": "kosmos_2_text_model", "kosmos-2.5": "kosmos_2_5_text_model", "lfm2_vl": "lfm2",
    "lfm3_vl": "lfm3", "lighton_ocr": "qwen3 L=28 H=16 K=8 E=1024 C=40960",
    "llama4": "llama4_text", "llava": "llama", "llava_llama": "llama", "llava_mistral": "mistral",
    "llava_next": "llama", "llava_next_video": "llama", "llava_onevision": "qwen2",
    "llava_qwen2": "qwen2", "minicpm_ocr": "qwen3_5_text", "minicpmv4_6": "qwen3_5_text",
    "minicpmv4_7": "qwen3_5_text", "minimax_m3_vl": "minimax_m3_vl_text",
    "mistral3": "mistral L=40 D=128 E=5120 V=131072 W=", "mistral_large4": "mistral_large4_text",
    "mllama": "mllama_text_model", "molmo2": "molmo2_text",
    "moss_transcribe_diarize": "qwen3 L=28 H=16 K=8 E=1024 C=131072",
    "muse_glimmer": "muse_glimmer_text", "muse_spark": "muse_spark_text",
    "musicflamingo": "qwen2", "musicgen": "musicgen_decoder",
    "musicgen_melody": "musicgen_melody_decoder", "nemo_speechlm": "",
    "nemotron_h_omni": "nemotron_h", "omniasr": "llama L=12 H=8 D=512 V=11984 C=8192",
    "ovis2": "qwen2", "paddleocr_vl": "paddleocr_vl_text",
    "paligemma": "gemma L=18 H=8 K=1 E=2048 V=257152", "perception_lm": "llama",
    "pix2struct": "pix2struct_text_model", "pp_chart2table": "qwen2 L=24 H=16 K=16 E=1024 V=151860",
    "pp_formulanet": "pp_formulanet_text", "qianfan_ocr": "qwen3",
    "qwen2_5_omni": "qwen2_5_omni_thinker",
    "qwen2_5_omni_thinker": "qwen2_5_omni_text", "qwen2_5_vl": "qwen2_5_vl_text",
    "qwen2_audio": "qwen2", "qwen2_vl": "qwen2_vl_text", "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen3_asr": "qwen3 L=28 H=16 K=8 E=2048 C=65536", "qwen3_omni_moe": "qwen3_omni_moe_thinker",
    "qwen3_omni_moe_thinker": "qwen3_omni_moe_text", "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text", "qwen4_exp": "qwen4_exp_text", "rag": "bart",
    "shieldgemma2": "gemma3_text", "smolvlm": "llama", "speech-encoder-decoder": "bert",
    "step3_vl": "step3_text", "step3p7": "step3p5", "t5gemma": "t5_gemma_module",
    "t5gemma2": "t5gemma2_decoder", "vibevoice": "qwen2",
    "vibevoice_asr": "qwen2", "video_llama_3": "qwen2", "video_llava": "llama",
    "vipllava": "llama", "vision-encoder-decoder": "bert",
    "voxtral": "llama L=30 K=8 D=128 E=3072 V=131072 C=131072",
    "voxtral_realtime": "voxtral_realtime_text L=26 D=128 E=3072 V=131072 W=8192",
    "kimi_k3": "kimi_linear", "llama_nemotron_nano_vl": "llama", "NVLM_D": "qwen2",
    "h2ovl_chat": "mistral", "ovis": "qwen2", "skywork_chat": "qwen2",
}  # fmt: skip
#: Where the language model stands, in the order of looking; thinker_config nests once more.
SECTIONS = (
    "text_config", "language_config", "llm_config", "thinker_config", "vlm_config", "decoder",
    "generator", "decoder_config", "language_model_config", "lm_config",
)  # fmt: skip
#: Composites whose decoder gets cross attention from the wrapper.
CROSSED = frozenset(
    {"encoder-decoder", "vision-encoder-decoder", "speech-encoder-decoder", "musicgen"}
)
