"""What both architectures' tests use."""

from pathlib import Path

import pytest

from tests.cluster.rig.certs import Authority


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates of a function, as Crossplane mounts them."""
    return Authority.new().issue(tmp_path_factory.mktemp("tls"), "function")
