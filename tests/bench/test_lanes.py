"""The lanes that are measured are those a user can choose."""

from click.testing import CliRunner

from bench.latency import LANES
from headrace.cli.parts import command_of
from headrace.cli.settings import LANES as CHOICES
from headrace.cli.settings import settings_of
from headrace.cli.up import up
from headrace.stream.lanes import Lane


def test_every_measured_lane_is_a_choice_and_a_lane() -> None:
    assert LANES == CHOICES
    assert all(Lane(name) for name in CHOICES)


def test_up_hands_the_lane_to_its_parts() -> None:
    flags = up.make_context("up", ["app.py", "--lane", "micro-batch"]).params
    command = command_of(flags.pop("app"), "stream", settings_of(flags))
    assert command[command.index("--lane") + 1] == "micro-batch"


def test_a_lane_that_is_none_is_refused_with_those_that_are() -> None:
    said = CliRunner().invoke(up, ["app.py", "--lane", "fast"])
    assert said.exit_code == 2
    assert "'real-time', 'micro-batch'" in said.output
