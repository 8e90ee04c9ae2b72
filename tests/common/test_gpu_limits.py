import pytest

from common.gpu_limits import GPU_LIMITS, REGISTERS, limits_of


def test_limits_are_consistent():
    for limits in GPU_LIMITS.values():
        assert limits.shared_per_block_bytes + limits.reserved_bytes <= limits.shared_bytes + 1024
        assert limits.max_warps % 16 == 0
        assert limits.registers_per_block <= REGISTERS


def test_an_architecture_by_its_name():
    assert limits_of("sm_90a") is limits_of("sm_90") is GPU_LIMITS[90]
    assert limits_of("sm_101") == limits_of("sm_110")


@pytest.mark.parametrize("arch", ["sm_999", "sm_", ""])
def test_one_that_is_not_in_the_table_has_no_limits(arch):
    with pytest.raises(KeyError):
        limits_of(arch)
