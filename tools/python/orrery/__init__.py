"""orrery: what one training step of a large model takes on a GPU cluster, where the time goes, and what to change.

    import orrery
    result = orrery.run("gpt3-6.7b-h100", set={"batch.micro": 4})
    result.iteration_time_s, result.mfu_pct, result.traffic

A scenario is a dict, YAML text (with line breaks), a file, or the name of a shipped one. What is wrong with it raises
`InputError`, which says where. Work runs on all cores without the interpreter's lock; Ctrl-C stops it.
"""

import json as _json
import os as _os
from pathlib import Path as _Path

# A wheel brings the devices, models and fabrics along.
_data = _Path(__file__).parent / "data"
if _data.is_dir():
    _os.environ.setdefault("ORRERY_HOME", str(_data))

from . import _orrery  # noqa: E402  (needs the data's place)
from ._errors import InputError  # noqa: E402
from ._results import Advice, Result, Search, Sweep  # noqa: E402

__all__ = ["Advice", "InputError", "Result", "Search", "Sweep", "advise", "run", "search", "shipped", "sweep"]
__version__ = _orrery.version()


def _text(value):
    """A value as YAML on one line; text stands as it is, so that quantities like '400 Gb/s' need no more quotes."""
    return value if isinstance(value, str) else _json.dumps(value)


def _source(scenario, changes):
    sets = [f"{key}={_text(value)}" for key, value in (changes or {}).items()]
    if isinstance(scenario, dict):
        return _orrery.Source(_json.dumps(scenario), True, sets)
    if isinstance(scenario, _os.PathLike):
        return _orrery.Source(_os.fspath(scenario), False, sets)
    if not isinstance(scenario, str):
        raise TypeError(f"got a scenario of type {type(scenario).__name__}, expected dict, str or a path")
    return _orrery.Source(scenario, "\n" in scenario, sets)


def _variations(vary):
    return [f"{key}={values if isinstance(values, str) else ','.join(_text(value) for value in values)}"
            for key, values in (vary or {}).items()]


def run(scenario, set=None, ranks="folded"):
    """Simulates one training step. `set`: dotted keys and values laid over the scenario. `ranks`: folded, one rank per
    class of equals, or full, every rank; both give the same times."""
    if ranks not in ("folded", "full"):
        raise InputError(f"ranks: got {ranks}, expected folded or full")
    return Result(_orrery.run(_source(scenario, set), ranks == "full"))


def sweep(scenario, vary, set=None, jobs=0, progress=None, limit=100_000):
    """Simulates every combination of the values of `vary`, {key: values}; values may be text as `--vary` takes it, as in
    "1:8:2". `progress(done, count)` is called after every point; what it raises ends the sweep. `jobs`: threads, all
    cores by default."""
    return Sweep(_json.loads(_orrery.sweep(_source(scenario, set), _variations(vary), limit, jobs, progress)))


def search(scenario, objective="tokens_per_s", set=None, top=10, vary=None, jobs=0, progress=None):
    """The `top` best layouts of a job on its GPUs by `objective`: tokens_per_s, mfu, time, cost or memory. `vary`
    replaces the values that are tried of a key. `progress(done, 0)` is called after every simulated layout: how many
    there will be is not known, as most are ruled out by their bounds."""
    answer = _orrery.search(_source(scenario, set), objective, top, _variations(vary), jobs, progress)
    return Search(_json.loads(answer))


def advise(scenario, set=None, top=5, pairs=32, jobs=0):
    """What to change about a job: what-ifs around its layout, each simulated, the best first."""
    return Advice(_json.loads(_orrery.advise(_source(scenario, set), top, pairs, jobs)))


def shipped(kind):
    """Names that a scenario may use: devices, software, models, fabrics, scenarios, tables, features, collectives."""
    return _orrery.shipped(kind)
