"""Which of torch_xla's tests go through its Dynamo backend, and how its own scripts start them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

VERSION = "v2.9.0"

# What the tests import beyond torch, torch_xla and pytest.
IMPORTS = {
    "absl": "absl-py",
    "expecttest": "expecttest",
    "parameterized": "parameterized",
    "torchvision": "torchvision",
}

ENVIRONMENT = {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1", "PYTORCH_TEST_WITH_SLOW": "1", "XLA_DUMP_FATAL_STACK": "1"}

# Set outside, these would change what the tests see.
CLEARED = (
    "BATCH_SIZE SAMPLE_COUNT PT_XLA_DEBUG PT_XLA_DEBUG_LEVEL PT_XLA_DEBUG_FILE XLA_SAVE_TENSORS_FILE"
    " XLA_SAVE_TENSORS_FMT XLA_USE_SPMD XLA_AUTO_SPMD XLA_DYNAMO_DEBUG PYTEST_ADDOPTS PYTEST_PLUGINS"
    " XLA_DYNAMO_INPUT_SHARDING_CHECK_THRESHOLD"
).split()

# Tests that train ResNet-18 or a decoder many times: most of the time that a whole run takes.
LONG = "resnet18 or decoder"


@dataclasses.dataclass(frozen=True)
class Run:
    """One file in one environment. `variant` tells runs of one file apart; {tmp} is a folder of the run's own.

    `select` is pytest's -k. `inline` names a function of the file that hands its work to another process.
    A `script` is run as it is, not collected by pytest.
    """

    file: str
    variant: str = ""
    select: str = ""
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    inline: str = ""
    script: bool = False

    @property
    def name(self) -> str:
        return f"{self.file}[{self.variant}]" if self.variant else self.file


def _debug(variant: str, variable: str, value: str) -> Run:
    environment = {variable: value, "PT_XLA_DEBUG_FILE": "{tmp}/debug.txt"}
    return Run("debug_tool/test_pt_xla_debug.py", variant, "test_dynamo", environment)


_DUMP = {"XLA_SAVE_TENSORS_FILE": "{tmp}/graphs.txt", "XLA_SAVE_TENSORS_FMT": "text"}

SUITE = (
    Run("dynamo/test_dynamo.py"),
    Run("dynamo/test_dynamo_aliasing.py"),
    Run("dynamo/test_dynamo_dynamic_shape.py"),
    Run("dynamo/test_dynamo_config.py"),
    Run("dynamo/test_bridge.py"),
    Run("dynamo/test_dynamo_graph_dump.py", environment=_DUMP),
    Run("spmd/test_dynamo_spmd.py"),
    Run("spmd/test_dynamo_spmd.py", "4 devices", environment={"CPU_NUM_DEVICES": "4"}),
    Run("eager/test_eager_with_torch_compile.py"),
    _debug("debug", "PT_XLA_DEBUG", "1"),
    _debug("level 1", "PT_XLA_DEBUG_LEVEL", "1"),
    _debug("level 2", "PT_XLA_DEBUG_LEVEL", "2"),
    Run("test_compilation_cache_utils.py", select="test_num_graph_hash1", inline="_test_spawn"),
    Run("quantized_ops/test_quantized_matmul.py", select="dynamo"),
    Run("test_mp_replication.py", "2 devices", environment={"CPU_NUM_DEVICES": "2"}, script=True),
)
