"""Packages that a script installs by pip or uv, and their effect on the image's packages."""

import pytest

from function.contract.packages import stated
from function.pods import installs
from function.pods.installs import ANY, HIDDEN

SCRIPTS: dict[str, dict[str, str]] = {
    "vllm serve m": {},
    "pip install vllm==0.9.2 && vllm serve m": {"vllm": "0.9.2"},
    "pip3.12 install 'vllm[audio]==0.9.2'": {"vllm": "0.9.2"},
    "python3 -m pip install --no-cache-dir lmcache==0.5.6 nixl": {"lmcache": "0.5.6", "nixl": ANY},
    "/opt/venv/bin/pip install vllm": {"vllm": ANY},
    "pip install -U vllm": {"vllm": HIDDEN},
    "uv pip install --system vllm --pre": {"vllm": HIDDEN},
    "uv add vllm==0.30.0": {"vllm": "0.30.0"},
    "pip install vllm==$VERSION": {"vllm": HIDDEN},
    "pip install vllm==latest": {"vllm": HIDDEN},
    "pip install 'vllm>=0.30'": {"vllm": HIDDEN},
    "pip install git+https://github.com/vllm-project/vllm.git@main": {"vllm": HIDDEN},
    "pip install https://x/vllm-0.23.0+cu129-cp38-abi3-manylinux1_x86_64.whl": {
        "vllm": "0.23.0+cu129"
    },
    "pip install lmcache==0.4.4 || pip install lmcache==0.5.6": {"lmcache": HIDDEN},
    "pip install lmcache; pip install lmcache==0.5.6": {"lmcache": "0.5.6"},
    "pip install \\\n  -U \\\n  vllm==0.30.0 lmcache\nvllm serve m": {
        "vllm": "0.30.0",
        "lmcache": HIDDEN,
    },
    "uv run --with vllm==0.19.0 --with=lmcache==0.3.1,nixl vllm serve m": {
        "vllm": "0.19.0",
        "lmcache": "0.3.1",
        "nixl": ANY,
    },
    "uv run -wvllm==0.19.0 vllm serve m": {"vllm": "0.19.0"},
    "uv run --with 'vllm[audio] == 0.19.0' vllm serve m": {"vllm": "0.19.0"},
    "pip install 'vllm==0.19.0": {"vllm": "0.19.0"},
    "echo pip; install vllm": {},
    "pip list | grep vllm": {},
    "pip install Mooncake_Transfer_Engine==0.3.13": {"mooncake-transfer-engine": "0.3.13"},
}


def test_packages_of_a_plain_command_line():
    command = ["uv", "run", "--with", "vllm==0.19.0", "vllm", "serve"]
    assert installs.of({"command": command, "args": ["m"]}) == {"vllm": "0.19.0"}


@pytest.mark.parametrize("more", [[], ["--with", "lmcache==0.5.6"]])
def test_uvx_takes_nothing_from_the_image(more):
    command = ["uvx", "--from", "vllm==0.33.0", *more, "vllm", "serve", "m"]
    found = installs.of({"command": command})
    assert (found["vllm"], found["sglang"]) == ("0.33.0", HIDDEN)
    assert found["lmcache"] == ("0.5.6" if more else HIDDEN)
    known = installs.packages({"command": command}, {})["lmcache"].versions
    assert known == (("0.5.6",) if more else None)


def test_uvx_takes_the_newest_of_a_name_alone():
    found = installs.of({"command": ["uvx", "--from", "vllm", "--with", "lmcache", "vllm"]})
    assert (found["vllm"], found["lmcache"]) == (HIDDEN, HIDDEN)


@pytest.mark.parametrize(
    "more", [["--with-requirements", "/r.txt"], ["--with-editable", "/src/vllm"], ["--with", "$V"]]
)
def test_requirements_that_cannot_be_read_may_bring_any_package(more):
    found = installs.of({"command": ["uv", "run", *more, "vllm", "serve", "m"]})
    assert (found["vllm"], found["lmcache"]) == (HIDDEN, HIDDEN)


@pytest.mark.parametrize("script", SCRIPTS)
def test_packages_installed_by_a_script(script: str) -> None:
    found = installs.of({"command": ["bash", "-c", script]})
    assert {k: v for k, v in found.items() if not k.startswith("-")} == SCRIPTS[script]


def test_installed_packages_override_those_of_the_image() -> None:
    held = {"lmcache": stated("the table", "0.5.6"), "nixl": stated("the table", "1.5.0")}
    script = "pip install lmcache==0.4.4 nixl mooncake-transfer-engine"
    found = installs.packages({"args": ["sh", "-c", script]}, held)
    assert {name: fact.versions for name, fact in found.items()} == {
        "lmcache": ("0.4.4",),
        "mooncake": None,
    }
