"""Where tiles live on this machine."""

from attenio.kernels.cpu import host


def test_the_private_level_is_the_largest_that_no_two_cores_share():
    assert host.private_boundary(host.host_machine()).fast in host.host_machine().levels
