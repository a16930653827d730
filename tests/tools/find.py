"""Where the pinned Go programs of the tests are, and how they are built.

Every program is a `tool` line in a small Go module of its own beside this file (their Kubernetes
libraries clash in one), with go.sum checked in; `router` is a small one of our own around llm-d's
library. A built program lives outside the checkout,

    ${XDG_CACHE_HOME:-~/.cache}/function-kv-offload/tools/<folder>-<hash>/<name>

where the hash covers the folder's Go files, go.mod and go.sum and how it is built, so every clone
on a machine shares it and a changed pin never runs an old program. `tests/tools/bin/<name>` links
to it for people.

    python3 tests/tools/find.py build core      # what `make crossplane` runs
    python3 tests/tools/find.py path core       # prints the path, fails if it is not built
"""

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = HERE / "bin"
_RUNTIME_VERSION = "github.com/crossplane/crossplane-runtime/v2/pkg/version.version"
_KUBE_VERSIONS = (
    "k8s.io/component-base/version.gitVersion",
    "k8s.io/client-go/pkg/version.gitVersion",
)


@dataclass(frozen=True)
class Edit:
    """One replacement in one file of a dependency, made in a copy of it at build time."""

    module: str
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Program:
    """A program: the folder of its Go module, its main package, string variables set by the linker
    (version numbers, mostly), edits of what no flag reaches, and build tags.
    """

    folder: str
    package: str
    variables: tuple[tuple[str, str], ...] = ()
    edits: tuple[Edit, ...] = ()
    tags: str = ""

    @property
    def flags(self) -> list[str]:
        linker = ["-s", "-w", *(f"-X {name}={value}" for name, value in self.variables)]
        chosen = [f"-tags={self.tags}"] if self.tags else []
        return ["-trimpath", "-buildvcs=false", *chosen, "-ldflags", " ".join(linker)]


def _kube(name: str) -> Program:
    versions = tuple((variable, "v1.36.3") for variable in _KUBE_VERSIONS)
    return Program("kubernetes", f"k8s.io/kubernetes/cmd/{name}", versions)


def _core(folder: str, version: str) -> Program:
    package = "github.com/crossplane/crossplane/v2/cmd/crossplane"
    return Program(folder, package, ((_RUNTIME_VERSION, version),))


# The core that the tests run: `make e2e-oldest` sets it to the oldest that is supported.
CORE = os.environ.get("RIG_CORE", "core")

PROGRAMS: dict[str, Program] = {
    "crossplane": Program(
        "crossplane",
        "github.com/crossplane/cli/v2/cmd/crossplane",
        ((_RUNTIME_VERSION, "v2.5.0"),),
    ),
    # The newest whose modules are all there: of v2.4.1 and v2.4.2 crossplane-runtime's are not.
    "core": _core("core", "v2.4.0"),
    "core-oldest": _core("core-oldest", "v2.3.4"),
    # v1.2.1 has no flags for its metrics (:8080) and webhook (:9443) addresses: a rig that chooses
    # free ports turns the first off and lets the kernel choose the second.
    "provider-kubernetes": Program(
        "provider-kubernetes",
        "github.com/crossplane-contrib/provider-kubernetes/cmd/provider",
        (("sigs.k8s.io/controller-runtime/pkg/metrics/server.DefaultBindAddress", "0"),),
        (
            Edit(
                "sigs.k8s.io/controller-runtime",
                "pkg/webhook/server.go",
                "DefaultPort = 9443",
                "DefaultPort = 0",
            ),
        ),
    ),
    "etcd": Program("etcd", "go.etcd.io/etcd/server/v3"),
    # v0.8.0 gives a pod's change up where its API server or etcd dies in the middle, and started
    # again it waits for its own leases to run out and may miss a pod then: such pods stay NotReady
    # for ever. A kubelet tries again and knows its node; so does the rig's kwok.
    "kwok": Program(
        "kwok",
        "sigs.k8s.io/kwok/cmd/kwok",
        edits=(
            Edit(
                "sigs.k8s.io/kwok",
                "pkg/kwok/controllers/utils.go",
                "// ignore all other cases\n\treturn false",
                "return !apierrors.IsNotFound(err) && !apierrors.IsConflict(err)"
                " && !apierrors.IsInvalid(err)",
            ),
            Edit(
                "sigs.k8s.io/kwok",
                "pkg/kwok/controllers/controller.go",
                "string(uuid.NewUUID())",
                "string(uuid.NewUUID()[:0])",
            ),
        ),
    ),
    "lws": Program("lws", "sigs.k8s.io/lws/cmd"),
    # What a release takes: images and registries.
    "crane": Program("crane", "github.com/google/go-containerregistry/cmd/crane"),
    "router": Program("router", "."),
    # Without service discovery, which no rule needs, a fifth of its packages is not built.
    "promtool": Program(
        "prometheus", "github.com/prometheus/prometheus/cmd/promtool", tags="remove_all_sd"
    ),
    # What Crossplane's signature check wants of Sigstore, offline.
    "trust": Program("trust", "."),
    "kube-apiserver": _kube("kube-apiserver"),
    "kube-controller-manager": _kube("kube-controller-manager"),
    "kube-scheduler": _kube("kube-scheduler"),
    "kubectl": _kube("kubectl"),
}


# The smallest target of the Makefile that builds a program, where it is not `cluster-tools`.
_TARGETS = {
    "crossplane": "crossplane",
    "core": "demo-tools",
    "core-oldest": "e2e-oldest",
    "crane": "release-tools",
    "etcd": "conformance-tools",
    "promtool": "alerts-tools",
    "router": "serve-tools",
    "trust": "e2e-release",
}

# They took 505 s on two busy cores, after another had compiled what they share (November 2026).
DURATION = "On two cores the eight of `make cluster` take 10 to 15 minutes. What is built is kept."


class ToolsMissing(RuntimeError):
    """A program or module that the tests need is not there; the message says how to get it."""


def cache_root() -> Path:
    """What clones share, outside the checkout: programs here, the engines' environments beside."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "function-kv-offload"


def cache_dir(name: str) -> Path:
    """The cache folder of a program's module, whether or not anything is built in it."""
    program = PROGRAMS[name]
    digest = hashlib.sha256()
    own = sorted(file.name for file in (HERE / program.folder).glob("*.go"))
    for file in ("go.mod", "go.sum", *own):
        digest.update((HERE / program.folder / file).read_bytes())
    digest.update("\0".join(program.flags).encode())
    if program.edits:
        digest.update(repr(program.edits).encode())
    return cache_root() / "tools" / f"{program.folder}-{digest.hexdigest()[:16]}"


def binary(name: str) -> Path | None:
    """The built program, or None if it has to be built first."""
    path = cache_dir(name) / name
    return path if path.is_file() and os.access(path, os.X_OK) else None


def require(name: str) -> Path:
    """The built program; ToolsMissing names the target that builds it."""
    path = binary(name)
    if path is None:
        target = _TARGETS.get(name, "cluster-tools")
        raise ToolsMissing(f"{name} is not built: run `make {target}` (needs Go)")
    return path


@functools.cache
def module_dir(name: str, module: str) -> Path:
    """The unpacked zip of a module that the go.mod of a program, or of a folder here, pins.

    CRDs and kwok's stages are in them.
    """
    if shutil.which("go") is None:
        raise ToolsMissing(f"module {module} cannot be looked up: Go is not on PATH")
    folder = HERE / (PROGRAMS[name].folder if name in PROGRAMS else name)
    done = subprocess.run(
        ["go", "mod", "download", "-json", module], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise ToolsMissing(f"module {module} of {folder.name}: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"])


def _edited(name: str, scratch: Path) -> list[str]:
    """The `go build` flags that apply a program's edits; one that no longer fits is an error."""
    program = PROGRAMS[name]
    if not program.edits:
        return []
    modfile = scratch / "go.mod"
    lines = [(HERE / program.folder / "go.mod").read_text()]
    (scratch / "go.sum").write_bytes((HERE / program.folder / "go.sum").read_bytes())
    copies: dict[str, Path] = {}
    for edit in program.edits:
        if edit.module not in copies:
            copy = copies[edit.module] = scratch / str(len(copies))
            # Copied without modes: the module cache is read-only.
            shutil.copytree(module_dir(name, edit.module), copy, copy_function=shutil.copyfile)
            for folder in (copy, *(path for path in copy.rglob("*") if path.is_dir())):
                folder.chmod(0o755)
            lines.append(f"replace {edit.module} => {copy}")
        edited = copies[edit.module] / edit.file
        text = edited.read_text()
        if text.count(edit.old) != 1:
            raise ToolsMissing(f"{edit.old!r} is not exactly once in {edit.module} {edit.file}")
        edited.write_text(text.replace(edit.old, edit.new))
    modfile.write_text("\n".join(lines) + "\n")
    return [f"-modfile={modfile}"]


def build(name: str, progress: str = "") -> Path:
    """Build a program unless the cache has it, and link it into tests/tools/bin."""
    program, target = PROGRAMS[name], cache_dir(name) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if binary(name) is None:
            if shutil.which("go") is None:
                raise ToolsMissing(f"building {name} needs Go 1.26 or newer on PATH")
            print(f"{progress}building {name} ({program.package})", flush=True)
            began = time.monotonic()
            fresh = target.parent / f".{name}.new"
            with tempfile.TemporaryDirectory() as scratch:
                flags = [*program.flags, *_edited(name, Path(scratch))]
                command = ["go", "build", *flags, "-o", str(fresh), program.package]
                environment = os.environ | {"CGO_ENABLED": "0"}
                subprocess.run(command, cwd=HERE / program.folder, env=environment, check=True)
            fresh.replace(target)
            print(f"built {name} in {time.monotonic() - began:.0f} s", flush=True)
    BIN.mkdir(exist_ok=True)
    link = BIN / name
    scratch = BIN / f".{name}.{os.getpid()}"
    scratch.symlink_to(target)  # type: ignore[attr-defined]
    scratch.replace(link)  # type: ignore[call-arg]
    return target


def announce(names: list[str]) -> None:
    """Say what will be built, before the first of many minutes."""
    missing = [name for name in names if binary(name) is None]
    if len(missing) > 1:
        kept = "once for all clones of this machine"
        print(f"Building {len(missing)} Go programs, {kept}: {', '.join(missing)}.", flush=True)
        print(DURATION, flush=True)


def main(arguments: list[str]) -> int:
    usage = "usage: find.py build|path NAME..., NAME one of: " + " ".join(PROGRAMS)
    verb, names = (arguments[0], arguments[1:]) if arguments else ("", [])
    if verb not in ("build", "path") or not names or set(names) - set(PROGRAMS):
        print(usage, file=sys.stderr)
        return 2
    try:
        if verb == "build":
            announce(names)
        for number, name in enumerate(names, 1):
            path = build(name, f"{number} of {len(names)}: ") if verb == "build" else require(name)
            if verb == "path":
                print(path)
    except ToolsMissing as missing:
        print(missing, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as failed:
        print(f"go build failed with exit code {failed.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
