"""What all tests need.

How hard Hypothesis tries is said by `HYPOTHESIS_PROFILE`: quick, default or thorough. And programs
that tests interrupt must hear it: whoever is started with `nohup … &` ignores it, and so do its
children.
"""

import os
import signal

from hypothesis import HealthCheck, settings

signal.signal(signal.SIGINT, signal.default_int_handler)

_ALWAYS = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("default", settings(max_examples=200, **_ALWAYS))
settings.register_profile("quick", settings(max_examples=15, **_ALWAYS))
settings.register_profile("thorough", settings(max_examples=2_000, **_ALWAYS))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
