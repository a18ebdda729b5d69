from pathlib import Path

import pytest

from attenio.catalogue import machine_named
from attenio.cluster.topology import Topology, topology_named, topology_of
from attenio.errors import InvalidInput
from attenio.parts import Link, LinkShape


def test_names_say_how_many_devices_are_joined_and_how() -> None:
    nodes = topology_named("DGX-H100:4x8")
    assert nodes.devices == 32 and nodes.group_sizes == (8, 32) and not nodes.is_torus
    torus = topology_named("tpu-torus:2x3")
    assert torus.devices == 6 and torus.is_torus and all(link.shape is LinkShape.RING for link in torus.links)
    assert topology_named("ethernet", 5).devices == topology_named("ethernet:5").devices == 5


def test_a_machine_file_describes_links(tmp_path: Path) -> None:
    file = tmp_path / "rack.yaml"
    file.write_text(
        "levels: [{name: cache, capacity_bytes: 1MB}, {name: HBM}]\n"
        "links:\n"
        "  - {name: board, devices: 4, bandwidth_bytes_per_s: 100 GB/s, latency_s: 1e-6}\n"
        "  - {name: rack, devices: 2, bandwidth_bytes_per_s: 10 GB/s}\n"
    )
    topology = topology_named(str(file))
    assert (topology.name, topology.devices) == ("rack", 8)
    assert topology.links[0] == Link(name="board", devices=4, bandwidth_bytes_per_s=100e9, latency_s=1e-6)
    assert topology_of(machine_named(str(file))) == topology


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{name: a, devices: 4}", "line 3: bandwidth_bytes_per_s is missing"),
        ("{name: a, devices: 0, bandwidth_bytes_per_s: 1 GB/s}", "line 3: devices is 0; it must be at least 1"),
        ("{name: a, devices: 2, bandwidth_bytes_per_s: 1 GB/s, latency_s: soon}", "latency_s is 'soon'; give seconds"),
        ("{name: a, devices: 2, bandwidth_bytes_per_s: 1 GB/s, shape: star}", "unknown shape of a link 'star'"),
        ("{name: a, devices: 2, bandwidth_bytes_per_s: 1 GB/s, speed: 1}", "unknown key 'speed'"),
    ],
)
def test_a_mistake_in_links_is_reported_with_its_line(tmp_path: Path, line: str, message: str) -> None:
    file = tmp_path / "rack.yaml"
    file.write_text(f"levels: [{{name: cache, capacity_bytes: 1MB}}, {{name: HBM}}]\nlinks:\n  - {line}\n")
    with pytest.raises(InvalidInput, match=message) as problem:
        topology_named(str(file))
    assert str(problem.value).count("rack.yaml line") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("dgx-h10:8x8", "unknown topology 'dgx-h10:8x8'; did you mean dgx-h100"),
        ("dgx-h100", "does not say nodes and GPUs of a node; write dgx-h100:8x8"),
        ("dgx-h100:8", "does not say nodes and GPUs"),
        ("tpu-torus", "does not say its axes; write tpu-torus:4x4x4"),
        ("tpu-torus:4x-4", "has sizes '4x-4'; write whole numbers between x"),
        ("tpu-torus:0x4", "a size of topology tpu-torus:0x4 is 0"),
        ("dgx-h100:", "has sizes ''; write whole numbers between x"),
        ("ethernet:4x4", "has 2 sizes; write how many devices: ethernet:16"),
        ("ethernet", "does not say how many devices it joins"),
        ("tpu-torus:4096x4096", "devices is 16,777,216; attenio plans up to 131,072"),
    ],
)
def test_unknown_topologies_and_sizes_are_refused_in_a_line(name: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        topology_named(name)


def test_a_topology_is_of_switches_or_of_rings_and_a_machine_without_links_has_none() -> None:
    switch = Link(name="a", devices=2, bandwidth_bytes_per_s=1e9)
    ring = Link(name="b", devices=2, bandwidth_bytes_per_s=1e9, shape=LinkShape.RING)
    with pytest.raises(InvalidInput, match="mixes switches and rings"):
        Topology(name="both", links=(switch, ring))
    with pytest.raises(InvalidInput, match="machine attenio-512k has no links"):
        topology_of(machine_named("attenio-512k"))
