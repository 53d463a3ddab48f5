import gc

import pytest

from analysis.uncollected import uncollected


@uncollected()
def fails():
    assert not gc.isenabled()
    raise ValueError("inside")


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_off_inside_and_afterwards_as_it_was(on):
    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        with pytest.raises(ValueError, match="inside"):
            fails()
        assert gc.isenabled() == on
    finally:
        (gc.enable if before else gc.disable)()
