"""Whether LMCache's native code was built for an engine's torch.

LMCache's wheels require no torch version, and are built against one: the pin of `pyproject.toml` in
each release's source distribution, and the CUDA of its builder image. Beside another torch the
extensions may miss symbols; then LMCache goes on with slow operations and a line in its log. What
counts is LMCache in the *engine's* image, and the agent's in its own.
"""

from function.contract.stock_images.facts import Contents

# LMCache's release -> (torch, CUDA's major) of its wheels on PyPI.
BUILDS: dict[str, tuple[str, str]] = {
    "0.4.1": ("2.8.0", "12"),
    "0.4.2": ("2.10.0", "12"),
    "0.4.3": ("2.10.0", "12"),
    "0.4.4": ("2.10.0", "12"),
    "0.4.5": ("2.10.0", "13"),
    "0.4.6": ("2.11.0", "13"),
    "0.4.7": ("2.11.0", "13"),
    "0.5.0": ("2.11.0", "13"),
    "0.5.1": ("2.11.0", "13"),
    "0.5.2": ("2.11.0", "13"),
    "0.5.3": ("2.11.0", "13"),
    "0.5.4": ("2.13.0", "13"),
    "0.5.5": ("2.13.0", "13"),
    "0.5.6": ("2.13.0", "13"),
}


def native(contents: Contents) -> bool | None:
    """Whether LMCache's native code is built for this image's torch and CUDA; None where nobody can
    tell, False without LMCache."""
    lmcache, torch, cuda = (contents.package(name) for name in ("lmcache", "torch", "cuda"))
    if lmcache.versions == ():
        return False
    if lmcache.note or not (lmcache.versions and torch.versions and cuda.versions):
        return None
    beside = (torch.versions[0], cuda.versions[0].partition(".")[0])
    found = {BUILDS[v] == beside if v in BUILDS else None for v in lmcache.versions}
    return found.pop() if len(found) == 1 else None
