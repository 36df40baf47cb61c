"""The commands that the module has no function of its own for, by the program itself: a run of `orrery COMMAND --json -`
whose answer is read. A scenario that is a dict or a text lies in a temporary file meanwhile, which messages call
"scenario"."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ._errors import InputError

_HERE = Path(__file__).parent


def program():
    """The program: $ORRERY_PROGRAM, the wheel's own, the one of the build that the package lies in, or the one on the
    path."""
    named = os.environ.get("ORRERY_PROGRAM") or os.environ.get("ORRERY_BINARY")
    for path in ([Path(named)] if named else []) + [_HERE / "bin" / "orrery", _HERE.parent.parent / "orrery"]:
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("orrery")
    if found is None:
        raise FileNotFoundError("there is no program orrery beside the package or on the path; name it in ORRERY_PROGRAM")
    return found


@contextlib.contextmanager
def files_of(scenarios):
    """The scenarios as the program takes them: names and paths as they stand, the others as files, which end here."""
    with tempfile.TemporaryDirectory(prefix="orrery-") as folder:
        words, made = [], {}
        for i, scenario in enumerate(scenarios):
            if isinstance(scenario, os.PathLike):
                words.append(os.fspath(scenario))
            elif isinstance(scenario, str) and "\n" not in scenario:
                words.append(scenario)
            elif isinstance(scenario, (dict, str)):
                # JSON is YAML; a file of its own folder, so that two scenarios of one name stay apart.
                file = Path(folder) / str(i) / "scenario.yaml"
                file.parent.mkdir()
                file.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario, default=plain),
                                encoding="utf-8")
                words.append(str(file))
                made[str(file)] = "scenario" if len(scenarios) == 1 else f"scenario {i + 1}"
            else:
                raise TypeError(f"got a scenario of type {type(scenario).__name__}, expected dict, str or a path")
        yield words, made


def plain(value):
    """Numbers and arrays of numpy as Python's."""
    for name in ("tolist", "item"):
        if hasattr(value, name):
            return getattr(value, name)()
    raise TypeError(f"got a value of type {type(value).__name__}, expected a number, text, list or dict")


def text_of(value):
    """A value as YAML on one line; text stands as it is, so that quantities like '400 Gb/s' need no more quotes."""
    return value if isinstance(value, str) else json.dumps(value, default=plain)


def options_of(options):
    """`top=5` as --top 5; True as the flag alone, None and False as nothing; lists as the option again and again."""
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += [option, os.fspath(one) if isinstance(one, os.PathLike) else text_of(one)]
    return words


def sets_of(changes):
    return [word for key, value in (changes or {}).items() for word in ("--set", f"{key}={text_of(value)}")]


def output_of(words, made=()):
    """Standard output of the program. Raises InputError with its line where the input is wrong (exit status 2)."""
    file, environment = program(), dict(os.environ)
    if Path(file).parent == _HERE / "bin":  # a wheel's: its libraries lie in the package
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(_HERE), environment.get("LD_LIBRARY_PATH")]))
    done = subprocess.run([file, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False,
                          env=environment)
    message = done.stderr.strip()
    for file, name in dict(made).items():
        message = message.replace(file, name)
    if done.returncode == 2:
        raise InputError(message.splitlines()[-1] if message else "the program refuses its input and does not say why")
    # 1 is also the answer of checks that fail (traffic counted twice), with the document that says so.
    if done.returncode != 0 and not done.stdout:
        raise RuntimeError(message or f"the program ended with status {done.returncode}")
    return done.stdout


def document_of(command, scenarios, changes=None, before=(), **options):
    """The JSON of `orrery COMMAND SCENARIO... --set ... --json -`."""
    with files_of(scenarios) as (words, made):
        text = output_of([*before, command, *words, *sets_of(changes), *options_of(options), "--json", "-"], made)
    return json.loads(text)


def text_of_command(command, scenarios, changes=None, **options):
    """What the command prints."""
    with files_of(scenarios) as (words, made):
        text = output_of([command, *words, *sets_of(changes), *options_of(options)], made)
    for file, name in made.items():
        text = text.replace(file, name)
    return text
