"""Memory of the process under attack: pods of 1.2 KB from which 3 MiB are derived each."""

import subprocess
import sys

# Variables that double make a script of 4 KB out of 30 bytes; its tree takes 700 bytes for each.
ATTACK = """
from tests.unit.composers import documents as d
from tests.unit.composers.calls import call

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def pod(number):
    document = d.engine()
    template = document["spec"]["forProvider"]["manifest"]["spec"]["template"]
    env = [{"name": "V0", "value": "a;"}]
    env += [{"name": f"V{n + 1}", "value": f"$(V{n})$(V{n})"} for n in range(11)]
    script = f"$(V11) exec vllm serve m # {number}"
    template["spec"]["containers"][0] |= {"env": env, "command": ["sh", "-c"], "args": [script]}
    return document

required = d.requirements(d.ready_tier())
for number in range(20):
    call(d.replica(), desired={"engine": pod(number)}, required=required)
    if number in (3, 19):
        print(resident())
"""


def test_pod_edits_do_not_grow_the_process() -> None:
    command = [sys.executable, "-c", ATTACK]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, last = map(float, done.stdout.split())
    assert last - first < 24, f"{last - first:.0f} MiB more after 16 edits"
