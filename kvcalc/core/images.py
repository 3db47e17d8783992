"""How many tokens an image takes in a prompt, by the rule of the model's image processor.

Markers around an image are text. An image that is sent as text (base64) is no image: it takes a
token for every few characters.

Sources: transformers 5.24, `qwen2_vl` (smart_resize), `pixtral` (get_resize_output_image_size) and
`gemma3`; sizes of the models' own preprocessor_config.json.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from kvcalc.core.errors import KvcalcError
from kvcalc.core.results.size import ImageTokens
from kvcalc.core.units import cdiv, shown

#: Sides beyond this are a typing error.
_LONGEST = 100_000
#: An aspect ratio beyond this is refused by Qwen's processor.
_RATIO = 200


class _Resized(NamedTuple):
    """Sides to multiples of `patch` pixels, the area between two limits; a token a patch."""

    patch: int
    least: int
    most: int

    def tokens(self, width: int, height: int) -> ImageTokens:
        if max(width, height) > _RATIO * min(width, height):
            raise KvcalcError(
                "usage", f"--image {width}x{height}: one side is over {_RATIO} times the other",
                "the model's image processor refuses it",
            )  # fmt: skip
        rows, columns = (round(side / self.patch) for side in (height, width))
        if rows * columns * self.patch**2 > self.most:
            scale = math.sqrt(height * width / self.most)
            rows, columns = (
                max(math.floor(side / scale / self.patch), 1) for side in (height, width)
            )
        elif rows * columns * self.patch**2 < self.least:
            scale = math.sqrt(self.least / (height * width))
            rows, columns = (math.ceil(side * scale / self.patch) for side in (height, width))
        return ImageTokens(width, height, rows, columns, rows * columns)


class _Rowed(NamedTuple):
    """The longer side at most `longest`; a token a patch of `patch` pixels, one more a row."""

    patch: int
    longest: int

    def tokens(self, width: int, height: int) -> ImageTokens:
        ratio = max(width, height) / self.longest
        if ratio > 1:
            width_, height_ = math.floor(width / ratio), math.floor(height / ratio)
        else:
            width_, height_ = width, height
        rows, columns = (max(cdiv(side, self.patch), 1) for side in (height_, width_))
        return ImageTokens(width, height, rows, columns, rows * (columns + 1))


class _Fixed(NamedTuple):
    """Every image alike."""

    count_: int

    def tokens(self, width: int, height: int) -> ImageTokens:
        return ImageTokens(width, height, None, None, self.count_)


_QWEN_2 = _Resized(28, 56 * 56, 12_845_056)
_QWEN_3 = _Resized(32, 256 * 256, 4096 * 4096)
#: By the config's model type.
_RULES: dict[str, _Resized | _Rowed | _Fixed] = {
    "qwen2_vl": _QWEN_2,
    "qwen2_5_vl": _QWEN_2,
    "qwen3_vl": _QWEN_3,
    "qwen3_vl_moe": _QWEN_3,
    "pixtral": _Rowed(16, 1024),
    "mistral3": _Rowed(28, 1540),
    "gemma3": _Fixed(256),
}


def image_tokens(architecture: str | None, image: str) -> ImageTokens:
    """What an image of "WIDTHxHEIGHT" pixels takes: 2488x2048 in Qwen2.5-VL is 73 rows of 89.

    Raises:
        KvcalcError: "usage" for no size; "unsupported_architecture" for a model whose rule is not
            known, or that reads no images.
    """
    match = re.fullmatch(r"\s*(\d+)\s*[x×]\s*(\d+)\s*", str(image), re.IGNORECASE)
    if match is None or not all(0 < int(side) <= _LONGEST for side in match.groups()):
        raise KvcalcError(
            "usage", f"--image {shown(image)} is no size in pixels", "WIDTHxHEIGHT, like 1920x1080"
        )
    rule = _RULES.get(architecture or "")
    if rule is None:
        raise KvcalcError(
            "unsupported_architecture",
            f"--image: what an image takes in {architecture or 'this model'} is not known",
            f"known: {', '.join(_RULES)}; else count its tokens into -c",
        )  # fmt: skip
    return rule.tokens(int(match[1]), int(match[2]))
