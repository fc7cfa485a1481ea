"""What was probably meant."""

from lakeward.base.did_you_mean import did_you_mean


def test_the_closest_name() -> None:
    """The closest of several; where none is close, what is said otherwise, or nothing."""
    assert did_you_mean("stoped", ["share", "stopped", "shopped"]) == "Did you mean stopped?"
    assert did_you_mean("x", ["stopped"], otherwise="No.") == "No."
    assert did_you_mean("x", []) == ""
