"""What may happen to a block of 32-bit numbers on its way through a store: a function a fault.

Each takes a source of chance, the block, and what was stored of another prompt; it returns as many
bytes.
"""

import array
import random
from collections.abc import Callable, Mapping

ROW = 512  # bytes: what one head has of one token (`copying.HEAD` numbers)

Fault = Callable[[random.Random, bytes, bytes], bytes]


def zero_half(draw: random.Random, block: bytes, other: bytes) -> bytes:
    """One half was never written."""
    half, nothing = len(block) // 2, bytes(len(block) // 2)
    return nothing + block[half:] if draw.random() < 0.5 else block[:half] + nothing


def swap(draw: random.Random, block: bytes, other: bytes) -> bytes:
    """Another prompt's block: a name that two have, or a stale one."""
    return other


def reorder(draw: random.Random, block: bytes, other: bytes) -> bytes:
    """Another layout: rows of several tokens, heads or layers in another order."""
    rows = [block[at : at + ROW] for at in range(0, len(block), ROW)]
    steps = draw.choice((2, 4, 8))
    return b"".join(row for first in range(steps) for row in rows[first::steps])


def mix_halves(draw: random.Random, block: bytes, other: bytes) -> bytes:
    """Another layout: keys where values are expected, or one layer's for another's."""
    half = len(block) // 2
    return block[half:] + block[:half]


def scale(draw: random.Random, block: bytes, other: bytes) -> bytes:
    """Another scale of the cache (`k_scale`, `v_scale`): larger or smaller by 4, 16 or 64."""
    add = draw.choice((-6, -4, -2, 2, 4, 6)) << 23
    numbers = array.array("I", block)
    return array.array("I", (n + add if n & 0x7F800000 else n for n in numbers)).tobytes()


def redraw(draw: random.Random, block: bytes, other: bytes) -> bytes:
    """Another model's block: numbers of the same size that have nothing to do with these."""
    numbers = array.array("f", block)
    size = (sum(n * n for n in numbers) / len(numbers)) ** 0.5
    return array.array("f", (draw.gauss(0, size) for _ in numbers)).tobytes()


def flip(draw: random.Random, block: bytes, other: bytes) -> bytes:
    """A bit in each row is another one."""
    out = bytearray(block)
    for at in range(0, len(out), ROW):
        out[at + draw.randrange(ROW)] ^= 1 << draw.randrange(8)
    return bytes(out)


FAULTS: Mapping[str, Fault] = {
    "half zeroed": zero_half,
    "another prompt's": swap,
    "reordered": reorder,
    "halves mixed up": mix_halves,
    "another scale": scale,
    "another model's": redraw,
    "bits flipped": flip,
}
