"""What a shell variable holds: a text or a list of words, put together only where it is used.

`A="$A --x"` written n times makes texts of n squared bytes in all; here each is its parts, and only
the last, which a command uses, is put together. `A="$A$A"` is two parts, whatever it grows to.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from function.command.budget import Budget
from function.command.model import Word


class TextValue:
    """A known text, in parts. `size`: its bytes."""

    __slots__ = ("_flat", "_parts", "size")

    def __init__(self, parts: "Iterable[bytes | TextValue]") -> None:
        # Empty parts would let a value of no bytes have any number of them.
        self._parts = tuple(part for part in parts if _size(part))
        self.size = sum(_size(part) for part in self._parts)
        self._flat: bytes | None = None

    def bytes(self, budget: Budget) -> bytes:
        if self._flat is None:
            budget.charge("expanded", self.size)
            found: list[bytes] = []
            stack: list[bytes | TextValue] = [self]
            while stack:
                part = stack.pop()
                if isinstance(part, bytes):
                    found.append(part)
                elif part._flat is not None:
                    found.append(part._flat)
                else:
                    stack.extend(reversed(part._parts))
            self._flat = b"".join(found)
        return self._flat

    def text(self, budget: Budget) -> str:
        return self.bytes(budget).decode("utf-8", "replace")


class WordsValue:
    """The words of an array, or of "$@", in parts.

    `size`: how many. `origin`: what the words that have none are said to come from; `certain`:
    False where only some runs have them.
    """

    __slots__ = ("_parts", "_skipped", "_sure", "_whole", "certain", "origin", "size")

    def __init__(
        self,
        parts: "Iterable[tuple[Word, ...] | WordsValue]",
        origin: str = "",
        certain: bool = True,
    ) -> None:
        self._parts = tuple(part for part in parts if _size(part))
        self.size = sum(_size(part) for part in self._parts)
        self.origin = origin
        self.certain = certain
        self._whole: tuple[Word, ...] | None = None
        # The first words of the whole that `shift` dropped, and how many of it are one word each,
        # in every run.
        self._skipped = 0
        self._sure = 0

    def words(self, budget: Budget) -> tuple[Word, ...]:
        whole = self._put_together(budget)
        if not self._skipped:
            return whole
        budget.charge("words", self.size)
        return whole[self._skipped :]

    def item(self, index: int, budget: Budget) -> str | None:
        """The word that `$index` stands for, from 1 on; None where it is not known which."""
        whole = self._put_together(budget)
        at = self._skipped + index - 1
        if at >= self._sure:
            return None if self._sure < len(whole) else ""
        return whole[at].value

    def shifted(self, budget: Budget) -> "WordsValue | None":
        """Without the first word; None where it is not known which that is."""
        whole = self._put_together(budget)
        if self._skipped >= self._sure:
            return None
        rest = WordsValue([whole])
        rest.size = self.size - 1
        rest._whole, rest._skipped, rest._sure = whole, self._skipped + 1, self._sure
        return rest

    def _put_together(self, budget: Budget) -> tuple[Word, ...]:
        if self._whole is None:
            budget.charge("words", self.size)
            self._whole = tuple(self._pieces())
            self._sure = next(
                (i for i, w in enumerate(self._whole) if w.many or not w.certain),
                len(self._whole),
            )
        return self._whole

    def _pieces(self) -> Iterator[Word]:
        stack: list[tuple[tuple[Word, ...] | WordsValue, str, bool]] = [(self, "", True)]
        while stack:
            part, origin, certain = stack.pop()
            if isinstance(part, WordsValue) and part._whole is None:
                origin, certain = part.origin or origin, certain and part.certain
                stack.extend((below, origin, certain) for below in reversed(part._parts))
                continue
            words = part if isinstance(part, tuple) else (part._whole or ())[part._skipped :]
            for word in words:
                yield _marked(word, origin, certain)


def _marked(word: Word, origin: str, certain: bool) -> Word:
    if (word.origin or not origin) and (certain or not word.certain):
        return word
    return replace(word, origin=word.origin or origin, certain=certain and word.certain)


def _size(part: "bytes | TextValue | tuple[Word, ...] | WordsValue") -> int:
    return part.size if isinstance(part, TextValue | WordsValue) else len(part)


# None: not known.
State = TextValue | WordsValue | None


def text(value: str) -> TextValue:
    return TextValue([value.encode()])
