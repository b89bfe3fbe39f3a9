# SPDX-License-Identifier: Apache-2.0
"""What is said of options that make no sense: which file, what is allowed, and the default."""

from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp import conf as options

SAID = {
    "cpi_models = web=1/2": "prints it; its default is empty",
    "control_loop = fast": "found 'fast'; its default is adaptive",
    "starve_s = soon": "'soon'; its default is 3600.0",
    "hold_s = nan": "use the default, 30.0",
}


@pytest.mark.needs_controllers("latency")
@pytest.mark.parametrize(("line", "said"), SAID.items())
def test_a_wrong_value_is_told_with_its_file_and_default(
    line: str, said: str, tmp_path: Path
) -> None:
    file, conf = tmp_path / "nova-vp.conf", cfg.ConfigOpts()
    file.write_text(f"[controller_latency]\n{line}\n")
    options.register_all(conf)
    conf(["--config-file", str(file)])
    [fault] = options.faults(conf)
    assert fault.startswith(f"[controller_latency] {line.partition(' ')[0]}")
    assert fault.endswith(said)
    assert "LocationInfo" not in fault
    assert "nan" in fault or f" in {file} " in fault
