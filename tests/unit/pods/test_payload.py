"""A payload image: an engine whose image holds another release is wired, and gets the tier's."""

from pathlib import Path

import pytest

from function.api.input import Input
from function.contract import payload as payloads
from function.contract.payload import PAYLOADS
from function.contract.recorded import shaped
from function.contract.stock_images import contents
from function.pods import running
from function.pods.offload_request import find
from function.pods.patch import payload as patch
from function.problems import Refused
from kv_offload.render import explain
from tests.corpus import judged
from tests.corpus.judged import KVOffloadTierRef

PREFIX = "modelplane.ai/kv-offload-"
OLD = {"NodeServer": "vllm/vllm-openai:v0.29.0", "Mooncake": "vllm/vllm-openai:v0.27.1"}
IMAGE = "registry.example.com/kv-offload-payload:v0.1.0"


def pod(image, packages="", **container):
    annotations = {PREFIX + "packages": packages} if packages else {}
    if packages:
        annotations |= {PREFIX + "engine": "vLLM", PREFIX + "engine-version": "0.29.0"}
    serving = {"name": "llm", "image": image, "command": ["vllm", "serve", "org/model"]}
    serving |= {"resources": {"limits": {"nvidia.com/gpu": "1"}}, **container}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chat", "annotations": annotations},
        "spec": {"containers": [serving, {"name": "other", "image": "proxy"}]},
    }


def wired(tier, manifest):
    found = judged.wired(manifest, judged.planned(tier, payload=True))
    assert found is not None
    return found


@pytest.mark.parametrize("tier", OLD)
def test_an_older_package_is_replaced_in_the_engines_container_alone(tier):
    found = wired(tier, pod(OLD[tier]))
    spec = found.manifest["spec"]
    (copies,) = spec["initContainers"]
    image, target, name = copies["args"]
    assert (copies["name"], copies["image"]) == (patch.NAME, IMAGE) == (patch.NAME, image)
    assert target == patch.PATH
    engine, other = spec["containers"]
    paths = next(e["value"] for e in engine["env"] if e["name"] == "PYTHONPATH")
    assert paths.split(":")[0] == f"{patch.PATH}/{name}"
    mounts = {m["name"]: m for m in engine["volumeMounts"]}
    assert mounts[patch.NAME] == {"name": patch.NAME, "mountPath": patch.PATH, "readOnly": True}
    assert other == {"name": "other", "image": "proxy"}
    (row,) = (row for row in PAYLOADS if row.name == name)
    assert f"the payload brings {row.package} {row.version} in place of" in found.summary


@pytest.mark.parametrize("tier", OLD)
def test_wiring_again_changes_nothing(tier):
    once = wired(tier, pod(OLD[tier])).manifest
    assert wired(tier, once).manifest == once


@pytest.mark.parametrize("tier", OLD)
def test_an_image_that_fits_gets_no_payload(tier):
    manifest = pod("vllm/vllm-openai:v0.32.0")
    plain = judged.wired(manifest, judged.planned(tier))
    assert plain and wired(tier, manifest).manifest == plain.manifest
    assert wired(tier, manifest).record == plain.record


@pytest.mark.parametrize("tier", OLD)
def test_a_refusal_that_offers_a_payload_is_wired_with_one(tier):
    """Of every public image that messages name."""
    offered = 0
    for image in (f"vllm/vllm-openai:v0.{n}.0" for n in range(20, 34)):
        _, message = judged.verdict(pod(image), judged.planned(tier))
        if "spec.payload" in message and message.count("(2)") == 0:
            wired(tier, pod(image))
            offered += 1
    assert offered


def test_another_torch_is_refused_with_what_the_payload_needs():
    # vLLM 0.26: torch 2.11.0.
    with pytest.raises(Refused) as caught:
        wired("NodeServer", pod("vllm/vllm-openai:v0.26.0"))
    assert "needs torch 2.13.0 (the image has 2.11.0), lmcache 0.5.3 to 0.5.5" in str(caught.value)
    _, message = judged.verdict(pod("vllm/vllm-openai:v0.26.0"), judged.planned("NodeServer"))
    assert "spec.payload" not in message


def test_an_image_without_the_package_is_refused():
    with pytest.raises(Refused, match=r"mooncake 0\.3\.7 or newer \(the image has none\)"):
        wired("Mooncake", pod("lmcache/vllm-openai:v0.5.6"))


def test_what_a_custom_image_does_not_say_is_asked_for_and_then_enough():
    image = "registry.example.org/ml/inference:7"
    with pytest.raises(Refused) as caught:
        wired("Mooncake", pod(image, "mooncake=0.3.10"))
    example = str(caught.value).rpartition('e.g. "')[2].partition('"')[0]
    assert example == "python=3.12,cuda=12.0"
    assert wired("Mooncake", pod(image, f"mooncake=0.3.10,{example}"))


def test_a_record_keeps_it_and_a_forged_one_names_no_other_image():
    manifest = pod(OLD["Mooncake"])
    found = wired("Mooncake", manifest)
    (kept,) = found.record.templates.values()
    assert shaped(kept.injection.to_json()) == kept.injection
    ref = KVOffloadTierRef(name="mooncake", namespace="platform")
    request = find("engine", manifest, ref, Input(), "")
    assert request is not None
    assert running.has(request, found.manifest, found.manifest)
    theirs = {**kept.injection.payload, "image": "registry.example.net/evil:1"}
    body = patch_with(found.manifest, theirs)
    assert not running.has(request, body, found.manifest)


def patch_with(manifest, payload):
    """The wired pod as a record with that payload would have it."""
    (copies,) = manifest["spec"]["initContainers"]
    other = {**copies, "image": payload["image"]}
    other["args"] = [payload["image"], *copies["args"][1:]]
    return {**manifest, "spec": {**manifest["spec"], "initContainers": [other]}}


@pytest.mark.parametrize("name", ["../etc", "a/b", "lmcache", "-", "lmcache-0.5.6/../x"])
def test_a_record_with_another_folder_is_dropped(name):
    plan = judged.planned("Mooncake", payload=True)
    (kept,) = wired("Mooncake", pod(OLD["Mooncake"])).record.templates.values()
    assert plan.backend.allows.problem(kept.injection) == ""
    forged = {**kept.injection.to_json(), "payload": {"image": "x", "names": [name], "bytes": 1}}
    assert plan.backend.allows.problem(shaped(forged)) == f"payload {name}"


def test_a_users_own_init_container_of_that_name_is_a_conflict():
    manifest = pod(OLD["Mooncake"])
    manifest["spec"]["initContainers"] = [{"name": patch.NAME, "image": "theirs"}]
    with pytest.raises(Refused, match=patch.NAME):
        wired("Mooncake", manifest)


def test_every_row_has_its_lock_file_and_no_other():
    folder = Path(payloads.__file__).parents[2] / "package" / "payload"
    locked = {file.stem: file.read_text() for file in folder.glob("*.txt")}
    assert set(locked) == {row.name for row in PAYLOADS}
    for row in PAYLOADS:
        assert locked[row.name].startswith(f"{row.distribution}=={row.version} \\\n")
        # One wheel each for amd64 and arm64.
        assert locked[row.name].count("--hash=sha256:") == 2


def test_rows_are_about_packages_that_stock_images_state():
    """A row that no public image of the newest lines could ever meet is of no use."""
    held = [contents(f"vllm/vllm-openai:v0.{n}.0") for n in range(22, 34)]
    held += [contents(f"vllm/vllm-openai:v0.{n}.0-cu129") for n in range(22, 34)]
    for row in PAYLOADS:
        facts = [h.packages for h in held if h]
        assert any(
            f["python"].within(f"=={row.python}") and f["cuda"].within(f"=={row.cuda}.*")
            for f in facts
        )


def test_explain_offers_tiers_with_a_payload():
    manifest = pod("vllm/vllm-openai:v0.27.0")
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "chat"},
        "spec": {"template": manifest},
    }
    offered = list(explain.alternatives(workload, Input()))
    assert "Mooncake, payload" in offered and "LMCache, payload" in offered
    # Neither where the image fits, nor where no package is replaced.
    assert {"Mooncake", "Native, payload"}.isdisjoint(offered)


@pytest.mark.parametrize("own", ["/usr/lib/python3/dist-packages", ":/src", ""])
def test_folders_that_python_searches_before_the_payload_are_refused(own):
    manifest = pod(OLD["NodeServer"], env=[{"name": "PYTHONPATH", "value": own}])
    if not own:
        assert wired("NodeServer", manifest)
        return
    with pytest.raises(Refused, match="is searched before the packages of the payload") as caught:
        wired("NodeServer", manifest)
    assert "env[PYTHONPATH]" in str(caught.value)


def test_folders_behind_the_payload_stay():
    first = next(row.name for row in PAYLOADS if row.package == "lmcache")
    own = f"{patch.PATH}/{first}:/src"
    manifest = pod(OLD["NodeServer"], env=[{"name": "PYTHONPATH", "value": own}])
    (engine, _) = wired("NodeServer", manifest).manifest["spec"]["containers"]
    paths = next(e["value"] for e in engine["env"] if e["name"] == "PYTHONPATH")
    assert paths.startswith(f"{own}:")


@pytest.mark.parametrize(
    ("text", "unfit"),
    [
        ("pip install torch==2.11.0", "torch 2.13.0 (the image has 2.11.0)"),
        ("pip install -U torch", "torch 2.13.0 (the image has unknown)"),
        ("pip install vllm==0.26.0", "cuda 13.x (the image has unknown)"),
        ("pip install git+https://github.com/vllm-project/vllm.git", "torch 2.13.0"),
        ("uv pip install --python 3.13 vllm==0.29.0", "python 3.12.x (the image has 3.13)"),
        ("pip install vllm==0.29.0", ""),
        ("pip install torch", ""),
        ("pip install vllm==0.26.0 torch==2.13.0", "cuda 13.x (the image has unknown)"),
    ],
)
def test_what_the_script_installs_decides_whether_a_payload_fits(text, unfit):
    manifest = pod(OLD["NodeServer"], command=["sh", "-c", f"{text}\nexec vllm serve org/model"])
    if not unfit:
        assert wired("NodeServer", manifest)
        return
    with pytest.raises(Refused) as caught:
        wired("NodeServer", manifest)
    assert unfit in str(caught.value)


@pytest.mark.parametrize("words", [["uvx"], ["uv", "run", "-p", "3.13"], ["uvx", "-p3.13"]])
def test_an_environment_of_uv_with_another_python_gets_no_payload(words):
    own = ["--from", "vllm==0.29.0", "--with", "mooncake-transfer-engine==0.3.10"]
    own = own if words[0] == "uvx" else own[2:]
    manifest = pod(OLD["Mooncake"], command=[*words, *own, "vllm", "serve", "org/model"])
    with pytest.raises(Refused, match="python 3"):
        wired("Mooncake", manifest)


def test_a_python_of_any_patch_release_takes_the_payload():
    held = "mooncake=0.3.10,python=3.12.7,cuda=12.9"
    assert wired("Mooncake", pod("registry.example.org/ml/inference:7", held))


def test_variables_of_a_source_that_is_not_seen_are_noted():
    manifest = pod(OLD["NodeServer"], envFrom=[{"secretRef": {"name": "own"}}])
    said = wired("NodeServer", manifest).summary
    assert "if PYTHONPATH is among it, write it into env" in said
    assert "envFrom" not in wired("NodeServer", pod(OLD["NodeServer"])).summary


@pytest.mark.parametrize("python", ["python3.11", "/usr/bin/python3.11"])
def test_another_python_than_the_image_s_holds_nothing_that_is_known(python):
    command = [python, "-m", "vllm.entrypoints.openai.api_server", "--model", "o/m"]
    with pytest.raises(Refused, match=r"the command starts Python 3\.11"):
        wired("NodeServer", pod(OLD["NodeServer"], command=command))
    assert wired("NodeServer", pod(OLD["NodeServer"], command=["python3.12", *command[1:]]))
