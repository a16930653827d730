"""A model that copies, as trained ones do: it goes on as its prompt did before, and weighs words by
how often they came lately. So what it says needs the blocks of the whole prompt.

The weights are not drawn, they are set: two Llama layers over a vocabulary of words, whose residual
holds one place a word for the word itself, for each of the three before it, and for the next one.
Layer 1 looks one, two and three places back. Layer 2 finds where the last three words stood before
and takes what came after them. One more head of each takes the words of about the last hundred
places.
"""

import math
import random
from collections.abc import Iterator
from pathlib import Path

from programs.observer.canary import WORDS
from tests.serve import models

PLACES = 96  # of the residual, for each of its parts: at least the vocabulary
WORD, BEFORE, NEXT, ONE = 0, (1, 2, 3), 4, 5 * PLACES
HIDDEN, HEADS, HEAD, FEED, LAYERS = 512, 4, 128, 32, 2
HALF = HEAD // 2  # pairs of a head
THETA = 1e10
NEAR = range(13)  # pairs that turn by a radian to a hundredth a place
AROUND = 14  # the pair that turns by 0.0065 a place
STILL = range(HALF // 2, HALF)  # pairs that hardly turn: what they say counts at every distance
BACK, FOUND, AROUND_STEEP = 14.0, 6.0, 6.0  # how sharply heads look
CERTAIN, LATELY = 5.0, 50.0  # logits for the word that came next before, and a word's share
SMALL = 1 / 64  # times a logit is what layers add for it, so that the last norm stays as it is

Matrix = list[list[float]]

CONFIG = models.CONFIG | {
    "hidden_size": HIDDEN,
    "intermediate_size": FEED,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 1,
    "head_dim": HEAD,
    "vocab_size": PLACES,
    "rms_norm_eps": 1e-6,
    "rope_theta": THETA,
    "tie_word_embeddings": False,
}


def write_copying_model(folder: Path) -> Path:
    """The model in `folder`, as a hub's snapshot lies on a disk."""
    words = [*models.SPECIAL, *sorted(set(WORDS))]
    assert len(words) <= PLACES
    return models.write_snapshot(folder, CONFIG, models.words_tokenizer(words), _tensors())


def _tensors() -> Iterator[tuple[str, tuple[int, ...], list[float]]]:
    embedded, out = _zeros(PLACES, HIDDEN), _zeros(PLACES, HIDDEN)
    # A norm divides by the root of the mean square. The parts that are there at each layer:
    sizes = [math.sqrt(parts / HIDDEN) for parts in (2, 5)]
    end = sizes[-1]  # what is added for logits is too small to change the last norm
    for word in range(PLACES):
        embedded[word][word] = embedded[word][ONE] = 1.0
        out[word][NEXT * PLACES + word] = end / SMALL
    found = {"model.embed_tokens": embedded, "lm_head": out}
    for layer, (head, size) in enumerate(zip((_looks_back(), _finds()), sizes, strict=True)):
        at = f"model.layers.{layer}"
        for name, matrix in head.items():
            scale = 1.0 if name == "o" else size
            found[f"{at}.self_attn.{name}_proj"] = [[n * scale for n in row] for row in matrix]
        for name in ("gate", "up"):
            found[f"{at}.mlp.{name}_proj"] = _zeros(FEED, HIDDEN)
        found[f"{at}.mlp.down_proj"] = _zeros(HIDDEN, FEED)
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{at}.{name}"] = [[1.0] * HIDDEN]
    found["model.norm"] = [[1.0] * HIDDEN]
    for name, matrix in sorted(found.items()):
        flat = [number for row in matrix for number in row]
        shape = (len(matrix), len(matrix[0])) if len(matrix) > 1 else (len(flat),)
        yield f"{name}.weight", shape, flat


def _looks_back() -> dict[str, Matrix]:
    """Layer 1: head n takes the word n + 1 places back, the last one what is near."""
    q, k, o = _zeros(HEADS * HEAD, HIDDEN), _zeros(HEAD, HIDDEN), _zeros(HIDDEN, HEADS * HEAD)
    _looks_around(len(BEFORE), q, k, o)
    for pair in NEAR:
        k[pair][ONE] = 1.0
    for head, part in enumerate(BEFORE):
        for pair in NEAR:
            # Turned on by as much as a key that lies so far back is turned less.
            turn = -(head + 1) * THETA ** (-pair / HALF)
            sharp = BACK * math.sqrt(HEAD)
            q[head * HEAD + pair][ONE] = sharp * math.cos(turn)
            q[head * HEAD + HALF + pair][ONE] = sharp * math.sin(turn)
        for word in range(PLACES):
            o[part * PLACES + word][head * HEAD + word] = 1.0
    return {"q": q, "k": k, "v": _words(), "o": o}


def _finds() -> dict[str, Matrix]:
    """Layer 2: head 0 finds the last three words among those before each place, head 1 takes what
    is near."""
    q, k, o = _zeros(HEADS * HEAD, HIDDEN), _zeros(HEAD, HIDDEN), _zeros(HIDDEN, HEADS * HEAD)
    _looks_around(1, q, k, o)
    places = [at for pair in STILL for at in (pair, HALF + pair)]
    for nearest, (mine, its) in enumerate(zip((WORD, *BEFORE), BEFORE, strict=False)):
        draw = random.Random(nearest)
        for word in range(PLACES):
            for at in places:
                sign = draw.choice((-1.0, 1.0)) / math.sqrt(len(places))
                q[at][mine * PLACES + word] = sign * FOUND * math.sqrt(HEAD)
                k[at][its * PLACES + word] = sign
    for word in range(PLACES):
        o[NEXT * PLACES + word][word] = CERTAIN * SMALL
    return {"q": q, "k": k, "v": _words(), "o": o}


def _looks_around(head: int, q: Matrix, k: Matrix, o: Matrix) -> None:
    """That head takes what is near, the less the farther away it is."""
    q[head * HEAD + AROUND][ONE] = AROUND_STEEP * math.sqrt(HEAD)
    k[AROUND][ONE] = 1.0
    for word in range(PLACES):
        o[NEXT * PLACES + word][head * HEAD + word] = LATELY * SMALL


def _words() -> Matrix:
    v = _zeros(HEAD, HIDDEN)
    for word in range(PLACES):
        v[word][word] = 1.0
    return v


def _zeros(rows: int, columns: int) -> Matrix:
    return [[0.0] * columns for _ in range(rows)]
