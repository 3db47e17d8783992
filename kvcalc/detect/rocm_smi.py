"""rocm-smi: `--showproductname --showmeminfo vram --showuniqueid --json`, memory in bytes.

A key a card ("card0"), and "system" with the driver. ROCm 5 writes "Card series", ROCm 6 "Card
Series"; older ones give the PCI database's "Navi 31 [Radeon RX 7900 XT/7900 XTX]". Notices in plain
words may stand before the JSON.
"""

from __future__ import annotations

import re
from typing import Any

from kvcalc.core.units import shown
from kvcalc.detect.device import (
    MOST,
    Device,
    Unusable,
    amd_uuid,
    decoded,
    difference,
    quoted,
    whole,
)
from kvcalc.detect.run import run

NAME = "rocm-smi"
_CARD = re.compile("card([0-9]{1,4})")
#: Keys that name the card, the plainest first.
_NAMES = ("card series", "device name", "card model")


def read() -> tuple[Device, ...]:
    """The GPUs that rocm-smi lists.

    Raises:
        Absent: There is no rocm-smi.
        Unusable: It found no GPU, failed, or printed something else.
    """
    said = run(NAME, "--showproductname", "--showmeminfo", "vram", "--showuniqueid", "--json")
    if said.code and not said.stdout.strip():
        raise Unusable(f"failed with exit code {said.code}: {quoted(said.stderr)}")
    return parse(said.stdout)


def parse(text: str) -> tuple[Device, ...]:
    """The devices of a JSON answer.

    Raises:
        Unusable: No JSON, or no card in it.
    """
    data = decoded(text)
    if not isinstance(data, dict):
        raise Unusable(f"printed {quoted(text)}, not a list of cards")
    cards = [(int(m[1]), card) for key, card in data.items() if (m := _CARD.fullmatch(key))]
    if not cards or len(cards) > MOST or not all(isinstance(card, dict) for _, card in cards):
        raise Unusable("no devices were found")
    cards.sort(key=lambda pair: pair[0])
    system = data.get("system")
    driver = _lower(system).get("driver version") if isinstance(system, dict) else None
    # A card's number is that of its DRM node; programs count from 0 without gaps.
    return tuple(_device(index, _lower(card), driver) for index, (_, card) in enumerate(cards))


def _lower(card: dict[str, Any]) -> dict[str, Any]:
    return {key.lower().strip(): value for key, value in card.items()}


def _device(index: int, card: dict[str, Any], driver: Any) -> Device:
    total = whole(card.get("vram total memory (b)"))
    used = whole(card.get("vram total used memory (b)"))
    return Device(
        index, _name(card), total, used, difference(total, used), NAME,
        uuid=amd_uuid(card.get("unique id")),
        driver_version=shown(driver, 40) if isinstance(driver, str) else None,
    )  # fmt: skip


def _name(card: dict[str, Any]) -> str:
    """The card's name; a PCI number such as 0x744c is none."""
    for key in _NAMES:
        text = card.get(key)
        if isinstance(text, str) and text.strip() and not re.fullmatch("0x[0-9a-fA-F]+|N/A", text):
            return shown(text.strip(), 100)
    return "an AMD GPU without a name"
