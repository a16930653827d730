"""Turns: how many calls of one namespace are composed at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass
class _Share:
    turns: asyncio.Semaphore
    users: int = 0


class Shares:
    """Gives each namespace at most `most` turns at once; the rest of its calls wait."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._shares: dict[str, _Share] = {}

    @asynccontextmanager
    async def of(self, namespace: str) -> AsyncIterator[None]:
        """Hold one turn of the namespace."""
        share = self._shares.setdefault(namespace, _Share(asyncio.Semaphore(self._most)))
        share.users += 1
        try:
            async with share.turns:
                yield
        finally:
            share.users -= 1
            if not share.users:
                del self._shares[namespace]
