"""How hard Hypothesis tries: `HYPOTHESIS_PROFILE` is quick, default or thorough."""

import os

from hypothesis import HealthCheck, settings

_ALWAYS = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("default", settings(max_examples=200, **_ALWAYS))
settings.register_profile("quick", settings(max_examples=15, **_ALWAYS))
settings.register_profile("thorough", settings(max_examples=2_000, **_ALWAYS))
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
