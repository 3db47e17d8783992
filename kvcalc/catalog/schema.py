"""The strict form of a preset: what a user's file must look like, and how its faults are told.

Shipped presets are checked against it by a test, the user's when they are read.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from kvcalc.catalog.faults import told
from kvcalc.catalog.files import Entry
from kvcalc.catalog.pattern import MAX_LAYERS, NONE, parse_pattern
from kvcalc.core.errors import KvcalcError

Count = Annotated[int, Field(ge=1, le=10**15)]
Size = Annotated[int, Field(ge=1, le=10**18)]
#: Zero is a value here: no conv channels, no groups.
Amount = Annotated[int, Field(ge=0, le=10**15)]
Text = Annotated[str, Field(min_length=1, max_length=2000)]
Id = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.+-]*$", max_length=100)]
LayerName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$", max_length=40)]
Basis = Literal["exact", "measured", "estimated"]
#: Dtypes of the formats that the core can store without blocks.
Plain = Literal["bf16", "fp16", "fp32", "fp8", "fp8_e5m2", "int8"]


class Strict(BaseModel):
    """No unknown keys and no conversions: "8" is no number, 8.0 is not whole."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LayerTable(Strict):
    """What every [[layers]] table may hold beside its kind's own keys."""

    name: LayerName | None = None
    count: Annotated[int, Field(ge=1, le=MAX_LAYERS)] | None = None
    #: The config field behind each number.
    from_: dict[str, Text] = Field(default_factory=dict, alias="from")


class HeadsTable(LayerTable):
    """Keys and values of heads."""

    kv_heads: Count
    key_dim: Count
    value_dim: Amount


class FullTable(HeadsTable):
    """Keys and values of every token."""

    kind: Literal["full"]


class WindowTable(HeadsTable):
    """Of the last window_tokens."""

    kind: Literal["sliding_window"]
    window_tokens: Count


class ChunkTable(HeadsTable):
    """Of the current chunk."""

    kind: Literal["chunked"]
    chunk_tokens: Count


class CrossTable(HeadsTable):
    """Of the encoder's output."""

    kind: Literal["cross"]
    encoder_tokens: Count


class LatentTable(LayerTable):
    """One latent and one rope key a token (MLA)."""

    kind: Literal["latent"]
    rank: Count
    rope_dim: Amount
    window_tokens: Count | None = None
    heads: Count | None = None
    nope_dim: Amount | None = None
    value_dim: Count | None = None


class EntriesTable(LayerTable):
    """One vector for every `ratio` tokens."""

    kind: Literal["indexer", "compressed"]
    dim: Count
    ratio: Count = 1


class StateTable(LayerTable):
    """A recurrent layer's fixed state."""

    kind: Literal["state"]
    variant: Text
    conv_kernel: Count = 1
    conv_channels: Amount = 0
    recurrent_elements: Amount = 0
    conv_dtype: Plain | None = None
    recurrent_dtype: Plain | None = None
    heads: Count | None = None
    groups: Amount = 0
    group_channels: Amount = 0


class SharedTable(LayerTable):
    """Reads another layer's cache."""

    kind: Literal["shared"]


AnyLayer = Annotated[
    FullTable | WindowTable | ChunkTable | CrossTable | LatentTable | EntriesTable | StateTable
    | SharedTable,
    Field(discriminator="kind"),
]  # fmt: skip


class Source(Strict):
    """Where the figures come from, and how far they are trusted."""

    texts: list[Text] = Field(default_factory=list)
    checked: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    confidence: Text | None = None
    notes: list[Text] = Field(default_factory=list)
    conflicts: list[Text] = Field(default_factory=list)


class Parameters(Strict):
    """Of the text model, in the checkpoint, and used for one token."""

    total: Size | None = None
    stored: Size | None = None
    active: Size | None = None
    basis: Basis | None = None


class WeightsTable(Strict):
    """Weights as the checkpoint stores them; estimated_bytes where their sum is not certain."""

    dtype: Text
    bytes: Size | None = None
    estimated_bytes: Size | None = None
    embedding_elements: Amount | None = None
    #: Bytes by storage format, and where the bytes are an estimate, their least and most.
    types: dict[str, Amount] = Field(default_factory=dict)
    low_bytes: Size | None = None
    high_bytes: Size | None = None


class Experts(Strict):
    """Routed experts of a mixture."""

    count: Count | None = None
    per_token: Count | None = None


class Preset(Strict):
    """What presets of both kinds hold."""

    id: Id
    name: Text | None = None
    aliases: list[Text] = Field(default_factory=list)
    architecture: Text | None = None
    source: Source = Field(default_factory=Source)


class ModelPreset(Preset):
    """models/<id>.toml."""

    hub: list[Text] = Field(default_factory=list)
    family: Text | None = None
    #: When its repository was created.
    released: Text | None = None
    license: Text | None = None
    query_heads: Count | None = None
    hidden_size: Count | None = None
    vocab_size: Count | None = None
    max_context_tokens: Count | None = None
    dtype: Plain = "bf16"
    pattern: Text | None = None
    pattern_from: Text | None = None
    defaulted: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list
    )
    parameters: Parameters = Field(default_factory=Parameters)
    weights: WeightsTable | None = None
    experts: Experts | None = None
    layers: list[AnyLayer] = Field(default_factory=list)

    @model_validator(mode="after")
    def _layers_and_pattern(self) -> ModelPreset:
        if self.pattern is None:
            if not self.layers:
                raise ValueError("layers is missing|expected [[layers]] tables")
            if len(self.layers) > 1:
                raise ValueError('pattern is missing|expected the layers\' order, as "12*(a + b)"')
            if self.layers[0].count is None:
                raise ValueError("layers[0].count is missing|expected a whole number, or a pattern")
            return self
        names = [layer.name for layer in self.layers]
        for i, layer in enumerate(self.layers):
            if layer.name is None:
                raise ValueError(f"layers[{i}].name is missing|expected a name for the pattern")
            if layer.name == NONE or names.index(layer.name) != i:
                raise ValueError(f"layers[{i}].name {layer.name} is taken|expected another name")
            if layer.count is not None:
                raise ValueError(
                    f"layers[{i}].count stands beside a pattern|expected none: the pattern counts"
                )
        used = {name for words in parse_pattern(self.pattern) for name in words}
        for unknown in sorted(used - set(names)):
            known = ", ".join(map(str, names))
            raise ValueError(f"pattern: no layer is named {unknown}|expected one of {known}")
        for i, name in enumerate(names):
            if name not in used:
                raise ValueError(f"layers[{i}]: {name} is not in the pattern|expected it there")
        return self


class GpuPreset(Preset):
    """gpus/<id>.toml. Memory in bytes, rates in bytes/s and FLOP/s."""

    vendor: Text | None = None
    memory_bytes: Size
    basis: Literal["measured", "estimated"] = "measured"
    low_bytes: Size | None = None
    high_bytes: Size | None = None
    marketing: Text | None = None
    visible_bytes: Size | None = None
    unified_memory: bool = False
    bandwidth_bytes_per_second: Size | None = None
    interconnect: Text | None = None
    interconnect_bytes_per_second: Size | None = None
    gpus_per_node: Count | None = None
    scaleup_domain: Count | None = None
    tdp_watts: Count | None = None
    dense_flops: dict[Literal["bf16", "fp16", "fp8", "fp4", "int8"], Size] = Field(
        default_factory=dict
    )

    @model_validator(mode="after")
    def _range(self) -> GpuPreset:
        low = self.low_bytes if self.low_bytes is not None else self.memory_bytes
        high = self.high_bytes if self.high_bytes is not None else self.memory_bytes
        if not low <= self.memory_bytes <= high:
            raise ValueError(
                "memory_bytes lies outside low_bytes to high_bytes|expected low ≤ memory ≤ high"
            )
        return self


FORMS: dict[str, type[Preset]] = {"models": ModelPreset, "gpus": GpuPreset}
_TABLES: dict[str, type[BaseModel]] = {
    "source": Source, "parameters": Parameters, "weights": WeightsTable, "experts": Experts,
}  # fmt: skip
_LAYERS: dict[str, type[LayerTable]] = {
    "full": FullTable, "sliding_window": WindowTable, "chunked": ChunkTable, "cross": CrossTable,
    "latent": LatentTable, "indexer": EntriesTable, "compressed": EntriesTable,
    "state": StateTable, "shared": SharedTable,
}  # fmt: skip


def check(kind: str, entry: Entry, path: str) -> None:
    """Accept a table of "models" or "gpus", or name its first fault.

    Raises:
        KvcalcError: "invalid_preset" with file, key and what was expected there.
    """
    try:
        FORMS[kind].model_validate(entry)
    except ValidationError as error:
        faults: list[Any] = error.errors(include_url=False)
        # An unknown key comes before the missing one that it was probably meant to be.
        faults.sort(key=lambda f: f["type"] != "extra_forbidden")
        raise told(faults[0], path, kind, keys_at(kind, entry, faults[0]["loc"])) from None
    except KvcalcError as error:
        raise KvcalcError(error.code, f"{path}: {error.message}", error.hint) from None


def keys_at(kind: str, entry: Entry, loc: tuple[int | str, ...]) -> list[str]:
    """The keys that the table holding `loc` may have."""
    form: type[BaseModel] = FORMS[kind]
    if len(loc) > 2 and loc[0] == "layers":
        form = _LAYERS[entry["layers"][loc[1]]["kind"]]
    elif len(loc) > 1:
        form = _TABLES.get(str(loc[0]), form)
    return [field.alias or name for name, field in form.model_fields.items()]
