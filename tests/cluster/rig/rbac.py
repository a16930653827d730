"""Rights as a real installation gives them, for a rig that runs with RBAC."""

import yaml

from tests.cluster.rig.functions import CHECKOUT
from tests.cluster.rig.kube import Api, Manifest, load
from tests.tools.find import CORE, module_dir

_CHART = "cluster/charts/crossplane/templates/clusterrole.yaml"
# What Crossplane's RBAC manager grants core for every XRD: its kinds, entirely.
_COMPOSITES: list[Manifest] = [{"apiGroups": ["modelplane.ai"], "resources": ["*"], "verbs": ["*"]}]


def chart_rules() -> list[Manifest]:
    """The rules of the chart's ClusterRole for core, whose template has none inside them."""
    text = (module_dir(CORE, "github.com/crossplane/crossplane/v2") / _CHART).read_text()
    return yaml.safe_load(text[text.index("\nrules:") :])["rules"]


def grant(api: Api, user: str) -> None:
    """Bind the chart's rules, ours, and those of the RBAC manager to core's user."""
    (ours,) = load(CHECKOUT / "package" / "rbac" / "clusterrole.yaml")
    for name, rules in (
        ("crossplane", chart_rules()),
        (ours["metadata"]["name"], ours["rules"]),
        ("crossplane:composites", _COMPOSITES),
    ):
        for manifest in _role(name, rules, user):
            api.apply(manifest)


def grant_provider(api: Api, user: str) -> None:
    """Bind what provider-kubernetes needs on a workload cluster to the user of its kubeconfig."""
    (role,) = load(CHECKOUT / "package" / "rbac" / "workload-cluster.yaml")
    for manifest in _role(role["metadata"]["name"], role["rules"], user):
        api.apply(manifest)


def _role(name: str, rules: list[Manifest], user: str) -> list[Manifest]:
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    return [
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": name},
            "rules": rules,
        },
        {
            "apiVersion": f"{group}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": role,
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        },
    ]
