"""Every alert fires on the series of its cases, and not on those of the others."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.alerts import promtool

# As texts: YAML takes 0x20, twenty more samples of 0, for a number.
_TEXT = Path(__file__).with_name("cases.yaml").read_text()
CASES: dict[str, Any] = yaml.load(_TEXT, Loader=yaml.BaseLoader)
ALERTS: dict[str, tuple[str, promtool.Rule]] = {}
for _backend, _rule in promtool.alerts():
    ALERTS.setdefault(_rule["alert"], (_backend, _rule))
REMOTE = promtool.tier("LMCache").tier.remote_name
JOB = f"kv-offload-system/{REMOTE}-engines"


def _text(name: str) -> str:
    return name.replace("<tier>", REMOTE).replace("<engines>", f'job="{JOB}"')


def _before(duration: str) -> str:
    """A minute less."""
    minutes = int(duration[:-1]) * {"m": 1, "h": 60}[duration[-1]]
    return f"{minutes - 1}m"


def _write(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize("backend", [*promtool.TIERS, ""])
def test_promtool_accepts_the_rules(backend: str, tmp_path: Path) -> None:
    path = _write(tmp_path, "rules.yaml", {"groups": promtool.groups(backend)})
    # Records of two engines have one name: their series differ in the pod.
    done = promtool.run("check", "rules", "--lint=none", path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_has_cases_of_both_kinds() -> None:
    assert set(CASES) == set(ALERTS)
    assert [name for name, cases in CASES.items() if not (cases["fires"] and cases["quiet"])] == []


@pytest.mark.parametrize("alert", CASES)
def test_alert_fires_in_its_cases_only(alert: str, tmp_path: Path) -> None:
    backend, rule = ALERTS[alert]
    rules = _write(tmp_path, "rules.yaml", {"groups": promtool.groups(backend)})
    # The labels that a page or a ticket is routed by, and no name with a hash.
    routed = "severity, tier, tier_namespace"
    labels = {name: value for name, value in rule["labels"].items() if name in routed}
    firing = f'ALERTS{{alertname="{alert}",alertstate="firing"}}'
    expected = "{" + ", ".join(f'{k}="{v}"' for k, v in sorted(labels.items())) + "}"
    tests = []
    for kind in ("fires", "quiet"):
        for case in CASES[alert][kind]:
            fires = [{"labels": expected, "value": int(case.get("alerts", 1))}]
            ever = f"count by ({routed}) (max_over_time({firing}[30h]))"
            looks = [(f"count by ({routed}) ({firing})", case["at"], fires)]
            # Not before it has held for its time, and where it must not fire, at no time.
            looks = (
                [*looks, (ever, _before(rule["for"]), [])]
                if kind == "fires"
                else [(ever, case["at"], [])]
            )
            tests.append(
                {
                    "name": f"{kind}: {case['case']}",
                    "interval": "1m",
                    "input_series": [
                        {"series": _text(name), "values": values}
                        for name, values in case["series"].items()
                    ],
                    "promql_expr_test": [
                        {"expr": expression, "eval_time": at, "exp_samples": samples}
                        for expression, at, samples in looks
                    ],
                }
            )
    document = {"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": tests}
    done = promtool.run("test", "rules", _write(tmp_path, "test.yaml", document))
    assert done.returncode == 0, done.stdout + done.stderr
