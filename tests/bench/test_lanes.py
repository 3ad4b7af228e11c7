"""The benchmark measures the lanes that a user can choose."""

from click.testing import CliRunner

from bench.latency import LANES
from headrace.cli.commands.app.up import up
from headrace.runtime.configuration.settings_parser import parse_settings
from headrace.runtime.configuration.settings_table import LANES as CHOICES
from headrace.runtime.parts.app_parts import part_command
from headrace.spark.execution.lanes import Lane


def test_every_measured_lane_is_a_choice_and_a_lane() -> None:
    assert LANES == CHOICES
    assert all(Lane(name) for name in CHOICES)


def test_up_hands_the_lane_to_its_parts() -> None:
    flags = up.make_context("up", ["app.py", "--lane", "micro-batch"]).params
    command = part_command(flags.pop("app"), "stream", parse_settings(flags))
    assert command[command.index("--lane") + 1] == "micro-batch"


def test_a_lane_that_is_none_is_refused_with_those_that_are() -> None:
    said = CliRunner().invoke(up, ["app.py", "--lane", "fast"])
    assert said.exit_code == 2
    assert "'real-time', 'micro-batch'" in said.output
