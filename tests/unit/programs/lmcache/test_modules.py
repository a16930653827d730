"""The classes that engines load, over a stand-in for LMCache's own and SGLang's.

What LMCache 0.5.0 to 0.5.6 really has is the conformance suite's to say, and what an engine answers
with it the serving suite's; here is what our few lines make of it.
"""

import json
import sys
import tempfile
import threading
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import programs
from function.backends.lmcache import modules

ID, DIGEST = "0123456789ab", "fedcba9876543210"
NAME = f"/mnt/models##kv-offload-{ID}-{DIGEST}"
WORKER, SCHEDULER = SimpleNamespace(name="WORKER"), SimpleNamespace(name="SCHEDULER")


class Client:
    """LMCache's adapter, as far as its keys go."""

    def __init__(self, model_name: str):
        self.model_name = model_name
        self.did: list[str] = []

    def _ensure_heartbeat_started(self) -> None:
        self.did.append("pings")

    def _create_key(self, token_ids: Any, start: int, end: int, request_id: str, cache_salt=""):
        return SimpleNamespace(model_name=self.model_name, cache_salt=cache_salt)


class Upstream:
    """LMCacheMPConnector, as far as ours relies on it; the role says which side it is."""

    client: type = Client

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None):
        setattr(self, f"{role.name.lower()}_adapter", self.client(vllm_config.model))
        self.trackers: dict[str, Any] = {}

    def register_kv_caches(self, kv_caches: Any) -> None:
        self.worker_adapter.did.append("registered")  # type: ignore[attr-defined]

    def _get_or_create_request_tracker(self, request: Any) -> Any:
        salt = request.cache_salt or ""
        return self.trackers.setdefault(request.request_id, SimpleNamespace(cache_salt=salt))


def load(program: str, **stubs: Any) -> ModuleType:
    """A module as an engine imports it, with stand-ins for what it imports."""
    before = {name: sys.modules.get(name) for name in stubs}
    sys.modules.update(stubs)
    try:
        found = ModuleType(program)
        exec(compile(modules.module(program).text, f"{program}.py", "exec"), found.__dict__)
        return found
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def package(**attributes: Any) -> Any:
    found = ModuleType("stand-in")
    found.__dict__.update(attributes)
    return found


def told(text: str) -> Any:
    """What the workers of an engine agree on: a digest, or a reason why there is none."""

    def agreed(vllm_config: Any, kv_cache_config: Any) -> str:
        if " " in text:
            raise RuntimeError(text)
        return text

    return agreed


def mp(upstream: type = Upstream, agreed: str = DIGEST) -> type:
    connector = package(LMCacheMPConnector=upstream)
    vllm = package(lmcache_mp_connector=connector)
    stubs = {"lmcache": package(), "lmcache.integration": package()}
    found = load("mp_connector", **stubs, **{"lmcache.integration.vllm": vllm})
    found.__dict__["agreed"] = told(agreed)
    return found.LMCacheMPConnector


def config(extra: dict[str, Any] | None = None, engine: str = "engine") -> Any:
    given = {"kv_offload.identity": ID} if extra is None else extra
    transfer = SimpleNamespace(
        engine_id=engine, get_from_extra_config=lambda key, default: given.get(key, default)
    )
    return SimpleNamespace(model="/mnt/models", kv_transfer_config=transfer)


@pytest.fixture(autouse=True)
def container(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the container in which an engine's processes leave their files."""
    folder = tmp_path_factory.mktemp("container")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def engine(made: type, of: Any = None, role: Any = SCHEDULER) -> Any:
    """An engine's connector of a role; vLLM makes those of the workers first."""
    of = of or config()
    worker = made(of, WORKER)
    return worker if role is WORKER else made(of, role)


def request(name: str = "r", salt: str | None = None, **more: Any) -> Any:
    return SimpleNamespace(request_id=name, cache_salt=salt, **{"lora_request": None, **more})


def test_scheduler_and_worker_name_identity_and_digest() -> None:
    """The scheduler sees nothing of what its workers resolved: they tell it the digest."""
    assert engine(mp(), role=WORKER).worker_adapter.model_name == NAME
    assert mp(agreed="unlike the workers")(config(), SCHEDULER).scheduler_adapter.model_name == NAME


def test_each_start_tells_its_own_digest() -> None:
    """Also to the scheduler of an engine whose author gave it a name."""
    engine(mp())
    again = engine(mp(agreed="1" * 16))
    assert again.scheduler_adapter.model_name == f"/mnt/models##kv-offload-{ID}-{'1' * 16}"
    two = engine(mp(agreed="2" * 16), config(engine="../another"))
    assert two.scheduler_adapter.model_name.endswith("2" * 16)
    assert engine(mp()).scheduler_adapter.model_name == NAME


def test_scheduler_without_workers_in_its_container_stops() -> None:
    with pytest.raises(RuntimeError, match=r"cannot tell this engine's blocks .* No such file"):
        mp()(config(), SCHEDULER)


def test_container_without_room_for_the_digest_stops_the_engine(container: Path) -> None:
    container.rmdir()
    with pytest.raises(RuntimeError, match="cannot tell this engine's blocks"):
        mp()(config(), WORKER)


def test_workers_that_differ_stop_before_they_reach_the_agent() -> None:
    unreachable = type("_", (Upstream,), {"__init__": lambda *_: pytest.fail("the agent's turn")})
    with pytest.raises(RuntimeError, match="a <> b"):
        mp(unreachable, agreed="a <> b")(config(), WORKER)


def test_missing_identity_stops_the_engine() -> None:
    with pytest.raises(ValueError, match=r"no kv_offload\.identity"):
        mp()(config({}), WORKER)


def test_engine_pings_immediately_after_registration() -> None:
    """Upstream waits for the first request, and until then sees no restart of its agent."""
    made = engine(mp(), role=WORKER)
    made.register_kv_caches({})
    assert made.worker_adapter.did == ["registered", "pings"]


class Elsewhere(Client):
    """A client whose keys take the model's name from somewhere else."""

    def _create_key(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(model_name="/mnt/models", cache_salt="")


class OtherArguments(Client):
    def _create_key(self, prompt: Any) -> Any:  # type: ignore[override]
        return super()._create_key(prompt, 0, 1, "r")


NO_PLACE = {
    "no adapter": type("_", (Upstream,), {"__init__": lambda *_: None}),
    "another name in its keys": type("_", (Upstream,), {"client": Elsewhere}),
    "other arguments": type("_", (Upstream,), {"client": OtherArguments}),
    "no such tracker": type(
        "_", (), {"__init__": Upstream.__init__, "client": Client, "trackers": {}}
    ),
}


@pytest.mark.parametrize("name", NO_PLACE)
def test_lmcache_without_the_hook_stops_the_engine(name: str) -> None:
    with pytest.raises(RuntimeError, match="Use an image with LMCache"):
        engine(mp(NO_PLACE[name]))


def adapter(folder: Path, weights: bytes = b"w") -> Any:
    folder.mkdir(exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(weights)
    return SimpleNamespace(lora_path=str(folder), lora_name="sql")


def salts(*requests: Any, connector: Any = None) -> list[str]:
    made = connector or engine(mp())
    return [made._get_or_create_request_tracker(r).cache_salt for r in requests]


def test_salt_holds_tenant_and_adapter(tmp_path: Path) -> None:
    sql, same = adapter(tmp_path / "sql"), adapter(tmp_path / "same")
    other = adapter(tmp_path / "other", b"v")
    plain, salted, *found = salts(
        request("a"),
        request("b", "tenant"),
        request("c", lora_request=sql),
        request("d", lora_request=same),
        request("e", lora_request=other),
        request("f", "tenant", lora_request=sql),
        request("g", prompt_embeds=object()),
        request("h", prompt_embeds=object()),
        request("i", lora_request=SimpleNamespace(lora_path="acme/sql")),
        request("j", lora_request=SimpleNamespace(lora_path="acme/sql")),
    )
    assert (plain, salted) == ("", "tenant")
    assert found[0] == found[1], "the same weights, wherever they lie"
    assert found[6] == found[7], "a hub's adapter, within a process"
    assert len(set(found)) == 6
    assert all(len(salt) <= 128 and not set(salt) & set("@/\\\0") for salt in found)
    (elsewhere,) = salts(request("i", lora_request=SimpleNamespace(lora_path="acme/sql")))
    assert elsewhere != found[6], "and no other process"


def test_changed_adapter_is_no_longer_shared(tmp_path: Path) -> None:
    """It is unknown whether the engine loaded the old or the new weights."""
    made = engine(mp())
    sql = adapter(tmp_path / "sql")
    before, again = salts(
        request("a", lora_request=sql), request("b", lora_request=sql), connector=made
    )
    assert before == again
    adapter(tmp_path / "sql", b"other weights")
    after = salts(request("c", lora_request=sql), request("d", lora_request=sql), connector=made)
    assert len({before, *after}) == 3


def test_a_request_keeps_its_salt(tmp_path: Path) -> None:
    made = engine(mp())
    one = request("a", lora_request=adapter(tmp_path / "sql"))
    first = salts(one, connector=made)
    adapter(tmp_path / "sql", b"other weights")
    assert salts(one, connector=made) == first


class Factory:
    def __init__(self) -> None:
        self.metadata: Any = None

    def get_or_create_metadata(self) -> Any:
        self.metadata = self.metadata or SimpleNamespace(model_name="/mnt/models")
        return self.metadata


def v1(asks: int) -> Any:
    """The in-process connector's metadata, after LMCache has asked for it so often."""
    adapter_ = package(VllmServiceFactory=Factory)

    class Connector:
        def __init__(self, *_: Any) -> None:
            factory = adapter_.VllmServiceFactory()
            for _ in range(asks):
                self.metadata = factory.get_or_create_metadata()

    names = ["vllm", "distributed", "kv_transfer", "kv_connector", "v1"]
    parents = {".".join(names[: n + 1]): package() for n in range(len(names))}
    parents[".".join(names)].lmcache_connector = package(LMCacheConnectorV1=Connector)
    parents |= {"lmcache": package(), "lmcache.integration": package()}
    parents["lmcache.integration.vllm"] = package(vllm_v1_adapter=adapter_)
    found = load("v1_connector", **parents)
    found.__dict__["agreed"] = told(DIGEST)
    made = engine(found.LMCacheConnectorV1)
    assert adapter_.VllmServiceFactory is Factory
    return made


def test_in_process_the_metadata_names_identity_and_digest_once() -> None:
    assert v1(2).metadata.model_name == NAME


def test_in_process_lmcache_without_the_hook_stops_the_engine() -> None:
    with pytest.raises(RuntimeError, match="Use an image with LMCache"):
        v1(0)


PARAMS = package(token_to_kv_pool_allocator=package(get_kvcache=lambda: "the pool"))


@dataclass
class Context:
    """SGLang's TreeCacheBuildContext, as far as ours relies on it."""

    model_config: Any
    server_args: Any = "the arguments"
    params: Any = PARAMS
    tp_size: int = 2


class Registry(ModuleType):
    """SGLang's registry of caches. `connector`: what its own factory gives a cache over LMCache."""

    def __init__(self, connector: Any) -> None:
        super().__init__("registry")
        self.connector, self.factories = connector, dict[str, Any]()

    def register_radix_cache_backend(self, name: str, factory: Any) -> None:
        self.factories[name] = factory

    def default_radix_cache_factory(self, context: Context) -> Any:
        made = self.connector(context.model_config.model_path)
        return SimpleNamespace(lmcache_connector=made, context=context)


class Legacy(Client):
    """The adapter of SGLang before 0.5.21: a block by its tokens."""

    def _create_key(self, token_ids: Any, start: int, end: int, request_id: str, no_worker_id=0):
        assert token_ids[start:end]
        return SimpleNamespace(model_name=self.model_name)


class Unified(Client):
    """The connector from 0.5.21 on: a block by the operation that looks it up."""

    def _create_key(self, operation: Any, *, start: int, end: int, worker_id: int | None):
        assert operation.token_ids[start:end] and operation.cache_salt == operation.request_id
        return SimpleNamespace(model_name=self.model_name)


def sglang(monkeypatch: pytest.MonkeyPatch, connector: Any, identity: str = ID) -> Any:
    """What SGLang builds by the name that our plugin registers."""
    registry = Registry(connector)
    names = ["sglang", "sglang.srt", "sglang.srt.mem_cache"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, package())
    sys.modules[names[-1]].__dict__["registry"] = registry
    monkeypatch.setenv("KV_OFFLOAD_IDENTITY", identity)
    found = load("sglang_cache")
    known = {("the arguments", "the pool"): DIGEST}
    found.__dict__["resolved"] = lambda server_args, pool: known[server_args, pool]
    assert (found.NAME, found.IDENTITY) == (modules.SGLANG_NAME, modules.SGLANG_IDENTITY)
    found.register()
    assert list(registry.factories) == ["kv-offload-lmcache"]
    config = SimpleNamespace(model_path="/mnt/models")
    made = registry.factories["kv-offload-lmcache"](Context(config))
    assert config.model_path == "/mnt/models", "SGLang reads its weights by it"
    return made


@pytest.mark.parametrize("connector", [Legacy, Unified])
def test_sglang_cache_names_identity_and_digest(monkeypatch, connector: type) -> None:
    made = sglang(monkeypatch, connector)
    assert made.lmcache_connector.model_name == NAME
    assert made.context.tp_size == 2


def test_sglang_without_the_variable_does_not_start(monkeypatch) -> None:
    with pytest.raises(ValueError, match="KV_OFFLOAD_IDENTITY is not set"):
        sglang(monkeypatch, Unified, identity="")


class BySomethingElse(Unified):
    """A later client whose keys do not take the path of the model's configuration."""

    def __init__(self, _: str) -> None:
        super().__init__("the model's name from elsewhere")


OTHER_CLIENTS = (lambda _: None, lambda _: SimpleNamespace(), BySomethingElse)


@pytest.mark.parametrize("connector", OTHER_CLIENTS, ids=["none", "no keys", "elsewhere"])
def test_sglang_with_unknown_keys_does_not_start(monkeypatch, connector: Any) -> None:
    """A model that SGLang keeps in no LMCache among them: nothing would be offloaded."""
    with pytest.raises(RuntimeError, match="Use an image with SGLang"):
        sglang(monkeypatch, connector)


class Future:
    """LMCache's MessagingFuture."""

    def __init__(self) -> None:
        self.done, self.answer = threading.Event(), None

    def set_result(self, answer: Any) -> None:
        self.answer = answer
        self.done.set()

    set_exception = set_result

    def result(self, timeout: float) -> Any:
        assert self.done.wait(timeout)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Queue:
    """LMCache's client of messages: what was asked waits until it is answered."""

    def __init__(self) -> None:
        self.pending_futures: dict[int, tuple[Future, str]] = {}
        self.asked, self.streams = list[str](), "open"

    def submit_request(self, operation: str, payloads: list[Any]) -> Future:
        self.asked.append(operation)
        future = Future()
        self.pending_futures[len(self.asked)] = future, operation
        return future

    def cancel_streams(self) -> None:
        self.streams = "ended"


class Talking(Unified):
    """The connector from 0.5.21 on, with the client that it talks by."""

    def __init__(self, model_name: str) -> None:
        super().__init__(model_name)
        self.queue = Queue()
        self._req_client = SimpleNamespace(_message_queue_client=self.queue)


def test_sglang_survives_the_loss_of_its_agent(monkeypatch) -> None:
    """What was asked fails, and nothing is asked of the next agent, which does not know it."""
    for name in ("lmcache", "lmcache.v1", "lmcache.v1.multiprocess"):
        monkeypatch.setitem(sys.modules, name, package())
    futures = package()
    futures.__dict__["MessagingFuture"] = Future
    monkeypatch.setitem(sys.modules, "lmcache.v1.multiprocess.futures", futures)
    client = sglang(monkeypatch, Talking).lmcache_connector
    queue = client.queue
    assert client.did == ["pings"]
    waiting = [queue.submit_request(operation, []) for operation in ("lookup", "store")]
    queue.cancel_streams()
    assert (queue.streams, queue.pending_futures) == ("ended", {})
    for future in (*waiting, queue.submit_request("lookup", []), queue.submit_request("ping", [])):
        with pytest.raises(ConnectionError, match="until this engine is restarted"):
            future.result(0)
    assert queue.asked == ["lookup", "store"]


def test_sglang_finds_the_mounted_plugin(monkeypatch, tmp_path) -> None:
    """As importlib.metadata reads a folder on the path, which is how SGLang finds plugins."""
    for path, text in modules.sglang_plugin().items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = entry_points(group="sglang.srt.plugins")
    assert found.name == "kv-offload-lmcache"
    assert found.dist is not None and found.dist.name == modules.module("sglang_cache").name
    assert found.load().__name__ == "register"


def test_module_name_has_a_digest_and_fits_a_record() -> None:
    for program in (modules.MP_CONNECTOR, modules.V1_CONNECTOR, modules.SGLANG_CACHE):
        found = modules.module(program)
        assert found.name.isidentifier() and found.name.startswith(f"{modules.PREFIX}_")
        assert len(programs.text(f"lmcache/{program}.py").encode()) < 4096
        assert len(json.dumps(found.text)) < 14 * 1024  # of 16 KiB
