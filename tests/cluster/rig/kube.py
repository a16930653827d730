"""A small client of one API server: server-side apply, dry runs, plain dicts.

Refusals are `Refused`, with the server's own words; a missing object is None.
"""

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from tests.cluster.rig.wait import until

Manifest = dict[str, Any]
FIELD_MANAGER = "rig"
# How long a request waits for a server that is away, as `kubectl` in a loop would.
_PATIENCE_SECONDS = 60
# Short: a server whose etcd has died answers nothing, and what has died is started between tries.
_ANSWER_SECONDS = 10


class Refused(Exception):
    """The API server's refusal: `status` is its Status object."""

    def __init__(self, code: int, status: Manifest) -> None:
        super().__init__(f"{code}: {status.get('message', status)}")
        self.code = code
        self.status = status


class Away(ConnectionError):
    """The API server cannot answer now; the same request may succeed later."""


@dataclass(frozen=True)
class Resource:
    plural: str
    namespaced: bool


class Api:
    """One API server, spoken to as one user.

    A request that finds the server away is sent again until it is back; `meanwhile` is called
    between the tries (the rig starts again what has died). A creation may then meet its own first
    try, so what must exist is applied.
    """

    def __init__(self, name: str, url: str, ca: Path, token: str) -> None:
        self.name = name
        self.url = url
        self._ca = ca
        self._token = token
        self._resources: dict[tuple[str, str], Resource] = {}
        self.meanwhile: Callable[[], object] = lambda: None
        self._http = httpx.Client(
            base_url=url,
            verify=ssl.create_default_context(cafile=str(ca)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=_ANSWER_SECONDS,
            trust_env=False,
        )

    def close(self) -> None:
        self._http.close()

    @property
    def closed(self) -> bool:
        return self._http.is_closed

    def kubeconfig(self) -> str:
        """A kubeconfig with everything inline, as a Secret of a ProviderConfig holds it."""
        data = base64.b64encode(self._ca.read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self.name,
            "clusters": [
                {
                    "name": self.name,
                    "cluster": {"server": self.url, "certificate-authority-data": data},
                }
            ],
            "users": [{"name": "rig", "user": {"token": self._token}}],
            "contexts": [{"name": self.name, "context": {"cluster": self.name, "user": "rig"}}],
        }
        return yaml.safe_dump(document, sort_keys=False)

    def ready(self) -> bool:
        return self._http.get("/readyz", timeout=2).status_code == 200

    # Reading

    def metrics(self) -> str:
        """The server's own metrics."""
        return self._request("GET", "/metrics").text

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> Manifest | None:
        path = self.path(api_version, kind, namespace, name)
        response = self._request("GET", path)
        return None if response.status_code == 404 else _checked(response)

    def again(self, manifest: Manifest) -> Manifest | None:
        """The object that a manifest names, as it is now."""
        return self.get(*_address(manifest))

    def list(
        self, api_version: str, kind: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[Manifest]:
        """All objects of a kind, in a namespace or in all; without the kind, none."""
        try:
            path = self.path(api_version, kind, namespace)
        except LookupError:
            return []
        query = {"labelSelector": labels, "fieldSelector": fields}
        items = _checked(self._request("GET", path, params={k: v for k, v in query.items() if v}))
        return [
            {"apiVersion": api_version, "kind": kind} | item for item in items.get("items") or []
        ]

    def columns(self, api_version: str, kind: str) -> set[str]:
        """The columns that `kubectl get` prints for a kind."""
        accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        table = _checked(self._request("GET", self.path(api_version, kind), headers=accept))
        return {c["name"] for c in table["columnDefinitions"] if not c["priority"]}

    def watch(self, api_version: str, kind: str, seconds: int) -> Iterator[Manifest]:
        """Watch events of a kind for so many seconds, beginning with what exists."""
        query = {"watch": "1", "timeoutSeconds": str(seconds)}
        path = self.path(api_version, kind)
        with self._http.stream("GET", path, params=query, timeout=seconds + 5) as response:
            for line in response.iter_lines():
                yield json.loads(line)

    # Writing

    def apply(
        self, manifest: Manifest, *, dry_run: bool = False, manager: str = FIELD_MANAGER
    ) -> Manifest:
        """Server-side apply with strict field validation."""
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        return self._send(
            "PATCH", self.path(*_place(manifest)), manifest, query, "apply-patch+yaml"
        )

    def create(self, manifest: Manifest, *, dry_run: bool = False) -> Manifest:
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        api_version, kind, namespace, _ = _place(manifest)
        return self._send("POST", self.path(api_version, kind, namespace), manifest, query, "json")

    def patch(self, manifest: Manifest, change: Manifest, subresource: str = "") -> Manifest:
        """JSON merge patch of the object that a manifest names."""
        path = self.path(*_place(manifest)) + (f"/{subresource}" if subresource else "")
        return self._send(
            "PATCH", path, change, {"fieldManager": FIELD_MANAGER}, "merge-patch+json"
        )

    def delete(
        self, manifest: Manifest, *, propagation: str = "Background", at_once: bool = False
    ) -> bool:
        """Delete, as `kubectl delete --cascade` would; False if it was not there.

        `propagation`: Background, Foreground or Orphan. `at_once`: without any grace.
        """
        options: Manifest = {"propagationPolicy": propagation}
        if at_once:
            options["gracePeriodSeconds"] = 0
        response = self._request("DELETE", self.path(*_place(manifest)), json=options)
        if response.status_code == 404:
            return False
        _checked(response)
        return True

    # Addresses

    def path(self, api_version: str, kind: str, namespace: str = "", name: str = "") -> str:
        resource = self._resource(api_version, kind)
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        scope = f"/namespaces/{namespace}" if resource.namespaced and namespace else ""
        return f"{root}{scope}/{resource.plural}" + (f"/{name}" if name else "")

    def serves(self, api_version: str, kind: str) -> bool:
        try:
            self._resource(api_version, kind)
        except LookupError:
            return False
        return True

    def _resource(self, api_version: str, kind: str) -> Resource:
        key = (api_version, kind)
        if key not in self._resources:
            root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
            response = self._request("GET", root)
            if response.status_code != 404:
                for entry in _checked(response)["resources"]:
                    if "/" not in entry["name"]:
                        found = Resource(entry["name"], entry["namespaced"])
                        self._resources[api_version, entry["kind"]] = found
        if key not in self._resources:
            raise LookupError(f"{self.name} serves no {kind} of {api_version}")
        return self._resources[key]

    def _send(self, verb: str, path: str, body: Manifest, query: dict, content: str) -> Manifest:
        headers = {"Content-Type": f"application/{content}"}
        return _checked(
            self._request(verb, path, params=query, content=json.dumps(body), headers=headers)
        )

    def _request(self, verb: str, path: str, **more: Any) -> httpx.Response:
        return until(
            lambda: self._request_once(verb, path, **more),
            f"{self.name} answers",
            _PATIENCE_SECONDS,
            meanwhile=self.meanwhile,
        )

    def _request_once(self, verb: str, path: str, **more: Any) -> httpx.Response:
        try:
            response = self._http.request(verb, path, **more)
        except httpx.TransportError as error:
            raise Away(f"{self.name}: {error}") from error
        # "storage is (re)initializing", what a server says while it starts or stops, and 500
        # where a webhook or etcd is away.
        if response.status_code in (429, 500, 502, 503, 504):
            raise Away(f"{self.name}: {response.status_code} {response.text[:200]}")
        return response


def _place(manifest: Manifest) -> tuple[str, str, str, str]:
    metadata = manifest["metadata"]
    namespace = metadata.get("namespace", "")
    return manifest["apiVersion"], manifest["kind"], namespace, metadata.get("name", "")


def _address(manifest: Manifest) -> tuple[str, str, str, str]:
    api_version, kind, namespace, name = _place(manifest)
    return api_version, kind, name, namespace


def _checked(response: httpx.Response) -> Manifest:
    try:
        document = response.json()
    except ValueError:
        document = {"message": response.text}
    if response.is_error:
        raise Refused(response.status_code, document)
    return document


def condition(manifest: Manifest | None, kind: str) -> Manifest:
    """A condition of an object's status by type; empty if it has none."""
    conditions = ((manifest or {}).get("status") or {}).get("conditions") or []
    return next((c for c in conditions if c["type"] == kind), {})


def is_true(manifest: Manifest | None, kind: str) -> bool:
    return condition(manifest, kind).get("status") == "True"


def describe(api: Api, manifest: Manifest) -> str:
    """An object's conditions and the last events about it: what `kubectl describe` would say."""
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    found = api.again(manifest)
    if found is None:
        return f"{name} does not exist"
    lines = [
        f"  {c['type']}={c['status']} {c.get('reason', '')}: {c.get('message', '')}"
        for c in (found.get("status") or {}).get("conditions") or []
    ]
    events = api.list("v1", "Event", fields=f"involvedObject.uid={found['metadata']['uid']}")
    lines += [f"  event {e['reason']}: {e['message']}" for e in events[-6:]]
    return "\n".join([f"{name}:", *lines])


def load(path: Path) -> list[Manifest]:
    """The documents of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]
