"""Predictions, from sizes."""

from __future__ import annotations

from lakeward.services.compaction.plan.cost import BYTES_PER_SECOND, OPEN_BYTES, OPERATION_SECONDS, full_cost, log_cost


def test_a_full_saves_its_readers_the_logs() -> None:
    """It reads everything and writes a base as large as the one before."""
    cost = full_cost(base_bytes=100, log_bytes=30, logs=3)
    assert (cost.read_bytes, cost.write_bytes, cost.io_bytes) == (130, 100, 230)
    assert cost.saved_bytes == 30 + 3 * OPEN_BYTES
    assert cost.benefit == cost.saved_bytes / 100


def test_the_first_base_saves_all_but_one_file() -> None:
    """It is as large as the logs it is made of, and has to be opened itself."""
    cost = full_cost(base_bytes=0, log_bytes=30, logs=3)
    assert (cost.read_bytes, cost.write_bytes, cost.saved_bytes) == (30, 30, 2 * OPEN_BYTES)
    assert full_cost(base_bytes=0, log_bytes=30, logs=1).saved_bytes == 0


def test_a_log_saves_its_readers_all_logs_but_one() -> None:
    """The base is neither read nor written."""
    cost = log_cost(run_bytes=30, logs=3)
    assert (cost.read_bytes, cost.write_bytes, cost.saved_bytes) == (30, 30, 2 * OPEN_BYTES)


def test_seconds_grow_with_what_is_read() -> None:
    """They come on top of what every operation costs."""
    cost = log_cost(run_bytes=2 * BYTES_PER_SECOND, logs=3)
    assert cost.core_seconds == OPERATION_SECONDS + 2
