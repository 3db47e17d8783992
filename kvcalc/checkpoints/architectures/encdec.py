"""Encoder–decoders: the decoder's own keys and values, and those of the encoder's output.

The encoder keeps nothing. Cross attention holds 2 · H_kv · d elements for each encoder token; where
the config fixes no length, the encoder's longest input stands in and is noted.
"""

from __future__ import annotations

from dataclasses import replace

from kvcalc.checkpoints.architectures.dense import MAKERS
from kvcalc.checkpoints.architectures.layers import build, full
from kvcalc.checkpoints.architectures.patterns import layer_kinds
from kvcalc.checkpoints.architectures.shape import Built, Family, Shape
from kvcalc.checkpoints.fields import MAX_LAYERS
from kvcalc.core.cache import Cross, Full
from kvcalc.core.model import Layer

#: Fields that bound the encoder's input, the most telling first.
ENCODER_LENGTHS = (
    "max_source_positions",
    "max_encoder_position_embeddings",
    "n_positions",
    "max_position_embeddings",
)


def encoder_length(s: Shape) -> int:
    """The encoder's longest input, noted as what a request is taken to hold."""
    found = s.f.lenient(*ENCODER_LENGTHS)
    if found is None:
        found = int(s.row.get("J", "512"))
        s.f.note("encoder_tokens", found)
    return found


def with_cross(layers: tuple[Layer, ...], tokens: int) -> tuple[Layer, ...]:
    """Every layer with cross attention of its own heads beside what it holds."""
    done = []
    for layer in layers:
        own = [cache for cache in layer if isinstance(cache, Full)]
        cross = tuple(
            Cross(kv_heads=c.kv_heads, key_dim=c.key_dim, value_dim=c.value_dim,
                  encoder_tokens=tokens) for c in own[:1]
        )  # fmt: skip
        done.append(layer + cross)
    return tuple(done)


def with_encoder(layers: tuple[Layer, ...], tokens: int) -> tuple[Layer, ...]:
    """The same layers with that many encoder tokens; cross attention is added where none is."""
    if not any(isinstance(c, Cross) for layer in layers for c in layer):
        return with_cross(layers, tokens)
    return tuple(
        tuple(replace(c, encoder_tokens=tokens) if isinstance(c, Cross) else c for c in layer)
        for layer in layers
    )


def seq2seq(s: Shape) -> Built:
    """BART, Whisper and their kin: decoder_layers of d_model / decoder_attention_heads."""
    kinds = layer_kinds(s)
    layers = build(s, kinds, MAKERS)
    if s.f.has("is_encoder_decoder") and s.f.flag("is_encoder_decoder", default=True) is False:
        return Built(layers, s)  # the decoder alone, as in a speech-encoder-decoder
    return Built(with_cross(layers, encoder_length(s)), s)


def t5(s: Shape) -> Built:
    """T5: num_decoder_layers (or num_layers) of num_heads · d_kv, never d_model / num_heads."""
    if s.f.first(("num_decoder_layers",)) is None:
        layers = s.f.count("num_layers", default=int(s.row["B"]), high=MAX_LAYERS)
        s.f.note("num_decoder_layers", layers)
        s = s.changed(num_decoder_layers=layers)
    s = s.changed(num_key_value_heads=None)  # the class has no such field
    return Built(with_cross((full(s),) * s.layer_count, encoder_length(s)), s)


def t5_decoder(s: Shape) -> Built:
    """T5Gemma's decoder, read from the nested config; cross attention is never windowed."""
    layers = build(s, layer_kinds(s), MAKERS)
    return Built(with_cross(layers, encoder_length(s)), s)


def dia(s: Shape) -> Built:
    """Dia: cross attention has heads of its own; the encoder's text is at most 1,024 bytes."""
    cross = Cross(
        kv_heads=s.f.count("cross_num_key_value_heads", default=16),
        key_dim=s.f.count("cross_head_dim", default=128),
        value_dim=s.f.count("cross_head_dim", default=128),
        encoder_tokens=1024,
    )
    s.f.note("encoder_tokens", 1024)
    return Built(((*full(s), cross),) * s.layer_count, s)


def mllama(s: Shape) -> Built:
    """Llama 3.2 Vision: cross_attention_layers hold the image alone, the others the text.

    Raises:
        KvcalcError: "invalid_config" for a layer that is not there.
    """
    default = list(range(3, s.layer_count, 5))
    listed = s.f.counts("cross_attention_layers", high=MAX_LAYERS)
    if listed is None:
        s.f.note("cross_attention_layers", ", ".join(map(str, default)))
    at = set(default if listed is None else listed)
    if any(i >= s.layer_count for i in at):
        raise s.f.bad("cross_attention_layers", f"numbers below the {s.layer_count:,} layers")
    cross = Cross(
        kv_heads=s.kv_heads, key_dim=s.head_dim, value_dim=s.head_dim, encoder_tokens=6404
    )
    # 6,404 is an image of 4 tiles of 40² + 1 patches; the wrapper's vision config says better.
    return Built(tuple((cross,) if i in at else full(s) for i in range(s.layer_count)), s)


def _bart(layers: int = 12, heads: int = 16, d: int = 1024, v: int = 50265, c: int = 1024) -> str:
    return (
        f"L:decoder_layers={layers} H:decoder_attention_heads={heads} E:d_model={d} V={v} C={c} "
        f"J={c}"
    )


def _t5(layers: int, heads: int, d: int, v: int) -> str:
    return f"L:num_decoder_layers= B={layers} H:num_heads={heads} D:d_kv=64 E:d_model={d} V={v}"


FAMILIES: dict[str, tuple[Family, str]] = {
    "bart": (seq2seq, _bart()),
    "mbart": (seq2seq, _bart()),
    "marian": (seq2seq, _bart(v=58101)),
    "pegasus": (seq2seq, _bart()),
    "pegasus_x": (seq2seq, _bart(16, v=96103, c=16384)),
    "blenderbot": (seq2seq, _bart(24, 32, 2560, 8008, 128)),
    "blenderbot-small": (seq2seq, _bart(8, d=512, c=512)),
    "bigbird_pegasus": (seq2seq, _bart(16, v=96103, c=4096)),
    "m2m_100": (seq2seq, _bart(v=128112)),
    "nllb-moe": (seq2seq, _bart(v=128112)),
    "mvp": (seq2seq, _bart(v=50267)),
    "plbart": (seq2seq, _bart(6, 12, 768, 50005)),
    "led": (seq2seq, _bart(c=16384)),
    "fsmt": (seq2seq, _bart(v=42024)),
    "seamless_m4t": (seq2seq, _bart(24, v=256102, c=4096)),
    "seamless_m4t_v2": (seq2seq, _bart(24, v=256102, c=4096)),
    "speech_to_text": (seq2seq, _bart(6, 4, 256, 10000, 6000)),
    "speecht5": (seq2seq, _bart(6, 12, 768, 81, 450)),
    "whisper": (seq2seq, _bart(4, 6, 384, 51865, 1500)),
    "pp_formulanet_text": (seq2seq, _bart(8, 16, 512, 50000, 2560)),
    "prophetnet": (
        seq2seq, "L:num_decoder_layers=12 H:num_decoder_attention_heads=16 E=1024 V=30522 J=512",
    ),
    "moonshine": (
        seq2seq,
        (
            "L:decoder_num_hidden_layers=6 H:decoder_num_attention_heads=8 "
            "K:decoder_num_key_value_heads= E=288 V=32768 J=512"
        ),
    ),
    "moonshine_streaming": (seq2seq, "L=6 H=8 D=40? E=320 V=32768 C=4096"),
    "canary_decoder": (seq2seq, "L=8 H=8 D=128? E=1024 V=16384 C=1024"),
    "cohere_asr": (seq2seq, "L=8 H=8 D=128? E=1024 V=16384 C=1024"),
    "t5": (t5, _t5(6, 8, 512, 32128)),
    "mt5": (t5, _t5(8, 6, 512, 250112)),
    "umt5": (t5, _t5(8, 6, 512, 250112)),
    "longt5": (t5, _t5(6, 8, 512, 32128)),
    "switch_transformers": (t5, _t5(12, 12, 768, 32128)),
    "pop2piano": (t5, _t5(6, 8, 512, 2400)),
    "udop": (t5, _t5(24, 16, 1024, 33201)),
    "pix2struct_text_model": (t5, _t5(12, 12, 768, 50244)),
    "t5_gemma_module": (
        t5_decoder, "L=26 H=8 K=4 D=256 E=2304 V=256000 C=8192 W=4096 P=every,2",
    ),
    "t5gemma2_decoder": (
        t5_decoder,
        "L=26 H=8 K=4 D=256 E=2304 V=262208 C=131072 W=4096 P=every,6,sliding_window_pattern",
    ),
    "dia_decoder": (dia, "L=18 H=16 K=4 D=128 E=2048 V=1028 C=3072"),
    "mllama_text_model": (mllama, "L=40 H=32 K=8 E=4096 V=128256 C=131072"),
}  # fmt: skip
