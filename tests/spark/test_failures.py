"""What went wrong is said in a sentence."""

from __future__ import annotations

import pytest

from tidings.spark.jobs import cause


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (
            "[STREAM_FAILED] Query [id = 7] terminated with exception: [PYTHON_ERROR]\n"
            "Traceback (most recent call last):\n"
            '  File "x.py", line 1, in y\n'
            "tidings.client.errors.ConnectionFailed: no broker can be reached\n\n"
            "=== Streaming Query ===",
            "no broker can be reached",
        ),
        (
            "[STREAM_FAILED] Query [id = 7] terminated with exception: timed out\n"
            "=== Streaming Query ===\n"
            "Identifier: [id = 7, runId = 8]\n"
            "Current Committed Offsets: {}",
            "[STREAM_FAILED] Query [id = 7] terminated with exception: timed out",
        ),
        ("tidings.events.errors.TidingsError: a\nb", "a"),
        (
            "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collect.\n"
            ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in 0.0\n"
            "Traceback (most recent call last):\n"
            "KeyError: 'price'\n\n"
            "\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)\n"
            "org.apache.spark.SparkException: again\n",
            "KeyError: 'price'",
        ),
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": org.apache.spark.SparkException: Could not parse Master URL: 'sparky'\n"
            "\tat org.apache.spark.SparkContext.<init>(SparkContext.scala:603)\n",
            "Could not parse Master URL: 'sparky'",
        ),
        ("something else\nof two lines", "something else"),
        ("", "ValueError('')"),
    ],
)
def test_the_cause_is_what_a_user_can_do_something_about(said: str, wanted: str) -> None:
    assert cause(ValueError(said)) == wanted
    assert "stopped by somebody else" in cause(None)
