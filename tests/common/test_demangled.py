import pytest

from common.demangled import without_parameters


@pytest.mark.parametrize(
    ("name", "called"),
    [
        ("k(float const*, int)", "k"),
        ("void ns::scale<float, 4>(float const*)", "ns::scale<float, 4>"),
        ("k<&(f(float))>(float const*, void (*)(int))", "k<&(f(float))>"),
        ("(anonymous namespace)::k()", "(anonymous namespace)::k"),
        ("extern_c", "extern_c"),
        ("unbalanced)", "unbalanced)"),
    ],
)
def test_a_name_loses_its_parameters_and_nothing_else(name, called):
    assert without_parameters(name) == called
