"""Recipe families: goals that ask for the same thing in another colour, wood or stone.

`red carpet` and `light blue carpet` are one family; a model that has crafted the one can
craft the other. A split that separates them measures memory, not skill.
"""

from __future__ import annotations

COLOURS = frozenset(
    "white orange magenta light_blue yellow lime pink gray light_gray cyan purple blue brown "
    "green red black".split()
)
WOODS = frozenset("oak spruce birch jungle acacia dark_oak crimson warped mangrove wooden".split())
STONES = frozenset(
    "stone cobblestone mossy_cobblestone granite diorite andesite blackstone basalt deepslate "
    "cobbled_deepslate sandstone red_sandstone prismarine dark_prismarine quartz purpur brick "
    "bricks nether_brick nether_bricks red_nether_brick red_nether_bricks end_stone "
    "end_stone_brick end_stone_bricks stone_brick stone_bricks prismarine_brick "
    "prismarine_bricks quartz_bricks deepslate_brick deepslate_bricks deepslate_tile "
    "deepslate_tiles blackstone_brick blackstone_bricks mud_brick mud_bricks tuff calcite".split()
)
FINISHES = frozenset("polished smooth cut chiseled mossy cracked stripped".split())
_LONGEST_MATERIAL = 3


def family(goal: str) -> str:
    """Name the family of a goal: its words, with every material word replaced by `*`.

    Several material words in a row are one: `polished blackstone brick stairs`,
    `oak stairs` and `stairs` of any other stone are all `* stairs`.
    """
    words = goal.split("_")
    kept: list[str] = []
    i = 0
    while i < len(words):
        size = _material_length(words, i)
        if size == 0:
            kept.append(words[i])
        elif kept[-1:] != ["*"]:
            kept.append("*")
        i += max(size, 1)
    return " ".join(kept)


def _material_length(words: list[str], start: int) -> int:
    for size in range(min(_LONGEST_MATERIAL, len(words) - start), 0, -1):
        name = "_".join(words[start : start + size])
        if name in COLOURS or name in WOODS or name in STONES or name in FINISHES:
            return size
    return 0
