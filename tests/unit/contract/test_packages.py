"""The table of image packages, and the places that must agree with it."""

import pytest

from function.api.packages import BROUGHT, PACKAGES, ImagePackages
from function.contract.stock_images import declared, named
from function.pods import installs
from programs import probe


def test_every_package_has_a_field() -> None:
    assert tuple(ImagePackages.model_fields) == tuple(PACKAGES)


def test_probe_knows_the_same_distributions() -> None:
    """It has a table of its own, for it runs alone; CUDA and Python are no distributions."""
    assert {*probe.PACKAGES, "cuda", "python"} == set(PACKAGES)
    looked = {name: found for name, (found, _) in probe.PACKAGES.items()}
    of_engines = {"torch", "python"}
    assert {
        n: p.distributions for n, p in PACKAGES.items() if p.distributions and n not in of_engines
    } == {name: found for name, found in looked.items() if name not in of_engines}


@pytest.mark.parametrize("distribution", BROUGHT)
def test_distribution_names_map_to_packages_everywhere(distribution: str) -> None:
    package = BROUGHT[distribution]
    assert list(declared.parse(f"{distribution}=1.2.3", "annotation")) == [package]
    script = {"command": ["sh", "-c", f"pip install {distribution}==1.2.3"]}
    assert list(installs.packages(script, {})) == [package]


@pytest.mark.parametrize("package", [name for name, one in PACKAGES.items() if one.said])
def test_package_version_from_image_tag_and_variable(package: str) -> None:
    by_name = named.named(f"me/engine:1-{package}1.2.3", {})
    by_env = named.named("me/engine", {f"{package.upper()}_VERSION": "1.2.3"})
    for found in (by_name, by_env):
        assert {name: fact.versions for name, fact in found.items()} == {package: ("1.2.3",)}
