"""Which module holds a model type's family, so that one config loads one module.

A test compares these names with the modules' own tables.
"""

from __future__ import annotations

from importlib import import_module

from kvcalc.checkpoints.architectures.shape import Family

MODULES: dict[str, str] = {
    "dense": """
        afmoe apertus apertus1p5_text arcee aria_text beam bert bert-generation big_bird biogpt
        bitnet blip_text_model bloom camembert chameleon codegen cohere cohere2 cohere2_moe
        cohere_compass_text cosmos3_edge_text csm ctrl cwm data2vec-text deepseek_ocr2_text
        diffllama doge dots1 electra emu3_text_model ernie ernie4_5 ernie4_5_moe
        ernie4_5_vl_moe_text evolla exaone exaone4 exaone_moe flex_olmo flint gemma gemma2 git
        glm glm4 glm4_moe glm4v_moe_text glm4v_text glm_ocr_text gpt2 gpt_neo gpt_neox
        gpt_neox_japanese gpt_oss gptj gradium_phonon_tts granite granite4_vision_text
        granite_docling_text granite_swa granitemoe granitemoe_swa granitemoeshared helium
        higgs_audio_v2 hunyuan_v1_dense hunyuan_v1_moe hunyuan_vl_text hy_v3 hyperclovax idefics
        internlm3 iquestcoder jais2 kolibri1 kosmos_2_5_text_model kosmos_2_text_model
        kyutai_speech_to_text laguna llama llama4_text megatron-bert mellum minimax_m2 ministral
        ministral3 mistral mixtral molmo2_text moshi muse_glimmer_text muse_spark_text
        musicgen_decoder musicgen_melody_decoder nanochat nemotron olmo olmo2 olmo3 olmoe
        openai-gpt opt paddleocr_vl_text persimmon phi phi3 phi4_multimodal phimoe pocket_tts
        qwen2 qwen2_5_omni_text qwen2_5_vl_text qwen2_moe qwen2_vl_text qwen3 qwen3_moe
        qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text rembert roberta roberta-prelayernorm
        roc_bert roformer sarvam_moe seed_oss smollm3 solar_open stablelm starcoder2 trocr
        vaultgemma voxtral_realtime_text xglm xlm-roberta xlm-roberta-xl xmod
    """,
    "variants": """
        dbrx deci diffusion_gemma_text dory falcon gemma3_text gemma3n_text gemma4_text
        gemma4_unified_text gpt_bigcode hrm_text jetmoe mimo_v2_flash modernbert-decoder mpt
        nemotron-nas openelm step3p5
    """,
    "latent": """
        axk1 axk2 deepseek_v2 deepseek_v3 deepseek_v32 dots3_note_text glm4_moe_lite glm_moe_dsa
        hy_v4 hy_v4_vl_text kimi_k2 longcat_flash minicpm3 minimax_m3 minimax_m3_vl_text
        mistral4 mistral_large4_text mistral_large_3 pangu_ultra_moe sarvam_mla youtu
    """,
    "mamba": """
        bamba falcon_h1 falcon_mamba granitemoehybrid jamba mamba mamba2 nemotron_h zamba zamba2
    """,
    "linear": """
        bailing_hybrid glm5_next_text kimi_linear lara_mini lfm2 lfm2_moe lfm3 minimax
        minimax_m1 minimax_text_01 olmo_hybrid qwen3_5_moe_text qwen3_5_text qwen3_next
        qwen4_exp_text
    """,
    "recurrent": """
        deepseek_v4 inkling2_loop_text inkling2_text inkling_text recurrent_gemma rwkv xlstm
        zaya
    """,
    "encdec": """
        bart bigbird_pegasus blenderbot blenderbot-small canary_decoder cohere_asr dia_decoder
        fsmt led longt5 m2m_100 marian mbart mllama_text_model moonshine moonshine_streaming mt5
        mvp nllb-moe pegasus pegasus_x pix2struct_text_model plbart pop2piano pp_formulanet_text
        prophetnet seamless_m4t seamless_m4t_v2 speech_to_text speecht5 switch_transformers t5
        t5_gemma_module t5gemma2_decoder udop umt5 whisper
    """,
    "remote": """
        PanguEmbedded Yi aquila arctic baichuan bailing_moe bailing_moe_linear bailing_moe_v2
        chatglm deepseek dots_ocr gpt3 grok-1 hunyuan internlm internlm2 jais mimo minicpm
        minicpmo minicpmv nanbeige orion phi-msft phi3_v phi3small phi4mm qwen skywork
        step3_text telechat xverse
    """,
}


def find(model_type: str) -> tuple[Family, str] | None:
    """The family of a model type and its row of defaults, or None."""
    for module, names in MODULES.items():
        if model_type in names.split():
            families = import_module(f"kvcalc.checkpoints.architectures.{module}").FAMILIES
            found: tuple[Family, str] = families[model_type]
            return found
    return None


def all_names() -> list[str]:
    """Every model type with a family."""
    return sorted(name for names in MODULES.values() for name in names.split())
