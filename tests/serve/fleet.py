"""The engines of one pair around one tier, and what engines without a tier would have said."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tests.serve import author
from tests.serve.engine import Answer, Engine, prompt
from tests.serve.pairs import PAIRS, Pair
from tests.serve.pairs.running import Running
from tests.serve.site import Site
from tests.serve.wiring import Wired

# Prompts whose words no rounding tips over, whatever part of them is found: with these weights the
# two likeliest are never nearer than 0.045, in sixteen bits and in thirty-two.
STEADY = (18, 31, 33, 41, 46, 49, 59, 77)
# The seeds of prompts that tests ask with, those of the short set, and those that some test wants
# found. An engine without a tier answers all of them once.
SEEDS = (*range(16), *STEADY)
SHORT = (0, 2, 3, 6, 9, 10, *STEADY[:3])
FOUND = (0, 1, 6, 11, 13)
PHASES = ("prefill", "decode")
# Claim -> seed of the weights on it.
MODELS = {"llama": 1, "qwen": 2}
# Claim -> seed of the adapter `sql` on it.
ADAPTERS = {"adapters": 11, "other-adapters": 12}


@dataclass(frozen=True)
class Variant:
    """What an engine serves: the author's pod, and the names under which it answers.

    `seeds`: the prompts that it is asked with. `found`: those of them that a tier may have.
    """

    pod: author.Pod = author.USUAL
    models: tuple[str, ...] = (author.SERVED,)
    seeds: tuple[int, ...] = SEEDS
    found: tuple[int, ...] = ()


LLAMA = Variant(found=FOUND)


class References:
    """The answers of engines that never had a tier: each engine starts once a run, and goes.

    Sixteen-bit numbers round by how a prompt is cut into batches, and of two nearly equal words
    another one may win. So an answer is known for each number of tokens that an engine may take
    from elsewhere, given by the engine's own cache on the device: the same cut, the same digits.
    `seeds`: of the prompts that this run asks with.
    """

    def __init__(self, site: Site, seeds: Collection[int]):
        self._site, self._seeds = site, seeds
        self._engines: dict[tuple[str, Variant], Engine] = {}
        self._answers: dict[tuple[str, Variant], dict[tuple[str, int, int], Answer]] = {}

    def start(self, pair: Pair, *variants: Variant) -> None:
        """Start the engines of these variants; `answer` waits for them."""
        for variant in variants:
            key = (pair.untouched, variant)
            if key not in self._engines and key not in self._answers:
                off = pair.declared.wire({"main": pair.write(variant.pod)}, policy="Off")
                name = f"untouched-{len(self._engines) + len(self._answers)}"
                self._engines[key] = self._site.engine(off, name, pair.untouched, pair.speaks)

    def answers(self, pair: Pair, variant: Variant) -> Mapping[tuple[str, int, int], Answer]:
        """(model's name, seed, tokens found) -> answer."""
        key = (pair.untouched, variant)
        if key not in self._answers:
            self.start(pair, variant)
            engine = self._engines.pop(key)
            engine.wait()
            chunks = {other.chunk for other in PAIRS.values()}
            self._answers[key] = {
                (name, seed, found): answer
                for name in variant.models
                for seed in variant.seeds
                if seed in self._seeds
                for found, answer in _ask(
                    engine, prompt(seed), name, chunks if seed in variant.found else ()
                )
            }
            self._site.stop(engine)
        return self._answers[key]


def _ask(
    engine: Engine, text: str, model: str, chunks: Iterable[int]
) -> Iterator[tuple[int, Answer]]:
    """The answer for nothing found, and for all whole chunks of each size found."""
    cold = engine.ask(text, model=model)
    yield 0, cold
    for found in sorted({(cold.prompt_tokens - 1) // chunk * chunk for chunk in chunks}):
        salt = {"cache_salt": f"found-{found}"}
        other = text[:found] + text[found:][::-1]  # as long: cut alike, it leaves the same bytes
        engine.ask(other, model=model, tokens=1, **salt)
        warm = engine.ask(text, model=model, **salt)
        assert warm.cached == found
        yield found, warm


class Fleet:
    """`tier` runs; engines are started by name, each name once."""

    def __init__(self, pair: Pair, site: Site, references: References):
        self.pair, self.site, self._references = pair, site, references
        self.declared = pair.declared
        self.engines: dict[str, Engine] = {}
        self._tier: Running | None = None

    @property
    def tier(self) -> Running:
        """The tier's workloads, started when they are first needed."""
        if self._tier is None:
            self._tier = self.pair.run(self.site, self.declared)
        return self._tier

    def wired(self, pods: Mapping[str, author.Pod], **more: object) -> Wired:
        """The author's pods (engine -> pod) as wired in one deployment, with the stand-ins."""
        engines = {}
        for name, pod in pods.items():
            env, args = (*self.pair.env, *pod.env), (*self.pair.args, *pod.args)
            engines[name] = self.pair.write(replace(pod, env=env, args=args))
        wired = self.declared.wire(engines, **more)  # type: ignore[arg-type]
        templates = dict(wired.templates)
        for stand_in in self.pair.stand_ins:
            templates = {name: stand_in.apply(found) for name, found in templates.items()}
        return Wired(templates, wired.config_maps)

    def start(self, name: str, pod: author.Pod = author.USUAL) -> Engine:
        """An engine of that name, starting or running; its tier is ready."""
        if name not in self.engines:
            _ = self.tier
            self.run(name, self.wired({"main": pod}))
        return self.engines[name]

    def run(self, name: str, wired: Wired, **more: bool) -> Engine:
        """An engine of a deployment that is wired already."""
        pair = self.pair
        self.engines[name] = self.site.engine(wired, name, pair.image, pair.speaks, **more)
        return self.engines[name]

    def prefill_and_decode(self) -> tuple[Engine, Engine]:
        """Start prefill and decode of one deployment and wait for both."""
        wired = self.wired({role: author.Pod(role=role) for role in PHASES})
        prefill, decode = (self.run(role, wired) for role in PHASES)
        prefill.wait()
        decode.wait()
        return prefill, decode

    def ready(self, *names: str) -> list[Engine]:
        """Engines of the usual pod, started together and awaited."""
        found = [self.start(name) for name in names]
        for engine in found:
            engine.wait()
        return found

    def stop(self, *names: str) -> None:
        """Remove engines at once."""
        self.site.stop(*(self.engines.pop(name) for name in names))

    def reference(
        self,
        seed: int,
        found: int = 0,
        *,
        variant: Variant = LLAMA,
        model: str = author.SERVED,
    ) -> Answer:
        """What an engine without a tier answers to the prompt of that seed, when it has that many
        of its tokens already."""
        return self._references.answers(self.pair, variant)[model, seed, found]

    def check(
        self,
        said: Answer,
        seed: int,
        found: int = 0,
        *,
        variant: Variant = LLAMA,
        model: str = author.SERVED,
    ) -> None:
        """Assert that an answer is the reference's: the words first, and on a CPU each digit."""
        expected = self.reference(seed, found, variant=variant, model=model)
        assert said.alike(expected), f"{said.text!r} and not {expected.text!r}"
        if self.site.gpu is None:
            assert said == expected

    def prepare(self, *variants: Variant) -> None:
        """Let the references' engines start while others do."""
        self._references.start(self.pair, *variants)

    def close(self) -> None:
        self.stop(*self.engines)
        if self._tier is not None:
            self._tier.close()
