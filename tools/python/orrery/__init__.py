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
from . import _program  # noqa: E402
from ._errors import InputError  # noqa: E402
from ._program import plain as _plain, text_of as _text  # noqa: E402
from ._results import Advice, Answer, Result, Search, Sweep  # noqa: E402

__all__ = ["Advice", "Answer", "InputError", "Result", "Search", "Sweep", "advise", "campaign", "collective", "compare",
           "explain", "export", "flops", "import_", "place", "plan", "report", "reproduce", "rl", "run", "search",
           "serving", "shipped", "sweep", "topology", "traffic", "validate"]
__version__ = _orrery.version()


def _source(scenario, changes):
    sets = [f"{key}={_text(value)}" for key, value in (changes or {}).items()]
    if isinstance(scenario, dict):
        return _orrery.Source(_json.dumps(scenario, default=_plain), True, sets)
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


def _answer(command, scenarios, changes=None, **options):
    document = _program.document_of(command, scenarios, changes, **options)
    return Answer(command, document, lambda: _program.text_of_command(command, scenarios, changes, **options))


def compare(target, *baselines, set=None, **options):
    """How much better `target` is than each baseline; with `set` and no baseline, than itself as it stands."""
    return _answer("compare", [target, *baselines], set, **options)


def traffic(scenario, set=None, **options):
    """The communication table: bytes by dimension and operation, by closed form and as simulated."""
    return _answer("traffic", [scenario], set, **options)


def collective(cluster, op, gpus, set=None, **options):
    """Time and bandwidth of a collective by size, as nccl-tests prints them. `sizes`: as in "1MB:1GB:2"."""
    return _answer("collective", [cluster], set, op=op, gpus=gpus, **options)


def topology(cluster, set=None, **options):
    """Counts, tiers, bisection and path lengths of a cluster's network."""
    return _answer("topology", [cluster], set, **options)


def campaign(scenario, set=None, **options):
    """Weeks of training with failures, checkpoints and restarts, as distributions over seeds."""
    return _answer("campaign", [scenario], set, **options)


def place(*scenarios, set=None, **options):
    """Ranks of jobs on the nodes of one cluster, and what each placement costs."""
    return _answer("place", list(scenarios), set, **options)


def validate(*lists, **options):
    """Lists of measured scenarios, files or folders, beside their predictions."""
    return _answer("validate", list(lists), None, **options)


def reproduce(table="megascale-eos", **options):
    """A published table beside its prediction; `shipped("tables")` has their names."""
    return _answer("reproduce", [table], None, **options)


def serving(scenario, set=None, **options):
    """Requests served by replicas: throughput, time to first token, time between tokens, cache, cost."""
    return _answer("serving", [scenario], set, **options)


def rl(scenario, set=None, **options):
    """A step of reinforcement learning: rollouts, scoring, training, weight transfer."""
    return _answer("rl", [scenario], set, **options)


def flops(subject, set=None, **options):
    """Parameters and FLOPs of a model, or of a scenario's step and training."""
    return _answer("flops", [subject], set, **options)


def plan(scenario, set=None, **options):
    """The compiled program of a stage, as text."""
    return _program.text_of_command("plan", [scenario], set, **options)


def explain(scenario, set=None):
    """Why a step takes what it takes, and how sure that is, as text: `orrery run --explain`."""
    return _program.text_of_command("run", [scenario], set, explain=True)


def report(scenario, file, set=None, command="run", **options):
    """Writes the HTML page of a command (run, compare, campaign, serving, ...) into `file`; returns its path."""
    scenarios = list(scenario) if isinstance(scenario, (list, tuple)) else [scenario]
    _program.text_of_command(command, scenarios, set, report=file, **options)
    return _Path(file)


def import_(file, *arguments, kind=None):
    """The scenario, as YAML text, that another program's file describes. `kind`: hf, megatron, nemo, torchtitan, ...;
    without it the file says which."""
    words = [kind] if kind else []
    return _program.output_of(["import", *words, _os.fspath(file), *arguments])


def export(kind, scenario, set=None, **options):
    """The launch line or configuration of another program (megatron, ...) for a scenario, as text."""
    with _program.files_of([scenario]) as (words, made):
        return _program.output_of(["export", kind, *words, *_program.sets_of(set), *_program.options_of(options)], made)


def shipped(kind):
    """Names that a scenario may use: devices, software, models, fabrics, scenarios, tables, features, collectives."""
    return _orrery.shipped(kind)
