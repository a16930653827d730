"""Every query of the dashboards is PromQL that Prometheus' own parser reads."""

import re
from pathlib import Path

import yaml

from kv_offload.docs import dashboards
from tests.alerts import promtool

_VARIABLE = re.compile(r"\$(\w+)")


def test_promtool_reads_every_query(tmp_path: Path) -> None:
    queries = [
        query
        for row in dashboards.declared().values()
        for panel in row["panels"]
        for query in panel["queries"].values()
    ]
    rules = [
        {
            "record": f"query:{number}",
            "expr": _VARIABLE.sub("x", query.replace("$__rate_interval", "5m")),
        }
        for number, query in enumerate(queries)
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    done = promtool.run("check", "rules", "--lint=none", path)
    assert done.returncode == 0 and len(queries) > 50, done.stdout + done.stderr
