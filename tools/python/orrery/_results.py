"""What runs and studies return: the simulator's JSON with attributes, tables and a view for notebooks."""

import difflib
import html
import json as _json
import re

# What a column holds where no row has a value: names that end in a unit are of numbers.
_MEASURED = re.compile(r"(^|_)(s|ms|us|bytes|gb|gbs|pct|usd|w|j|tokens|flops|pflops)$")


def level(row, above=""):
    """A row without mappings in it: {"memory_gb": {"measured": 1}} is a column memory_gb.measured. What is laid over a
    scenario (`set`) stays a mapping, and so do lists."""
    out = {}
    for key, value in row.items():
        name = f"{above}{key}"
        if isinstance(value, dict) and key != "set":
            out.update(level(value, f"{name}."))
        else:
            out[name] = value
    return out


def dtype_of(name, values):
    """pandas' type of a column: truths, whole numbers and numbers as such, with gaps where there is none; None: as it
    stands."""
    there = [value for value in values if value is not None]
    if not there:
        return "float64" if _MEASURED.search(name) else None
    if all(isinstance(value, bool) for value in there):
        return "bool" if len(there) == len(values) else "boolean"
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in there):
        return None
    if all(isinstance(value, int) for value in there) and not _MEASURED.search(name):
        return "int64" if len(there) == len(values) else "Int64"
    return "float64"


def table(rows):
    """Rows (dicts) as a pandas DataFrame where pandas is installed, else as a list of dicts, each without mappings in
    it. Every row has all columns, None where it has no value."""
    rows = [level(row) for row in rows]
    names = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name) for name in names} for row in rows]
    try:
        import pandas
    except ImportError:
        return rows
    columns = {name: [row[name] for row in rows] for name in names}
    return pandas.DataFrame({name: pandas.Series(values, dtype=dtype_of(name, values) or "object")
                             for name, values in columns.items()})


def html_table(columns, rows):
    cells = lambda row, tag: "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(columns, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def typed(text):
    """A setting as it was meant: a number or truth where it is one (the program writes settings as text)."""
    if not isinstance(text, str):
        return text
    try:
        value = _json.loads(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, (int, float, bool)) else text


def typed_set(settings):
    """Settings with values as they were meant."""
    return {key: typed(value) for key, value in settings.items()}


def flat(row):
    """A row of a study with its settings as columns beside its results."""
    return {**typed_set(row["set"]), **{key: value for key, value in row.items() if key != "set"}}


def missing(what, name, names):
    """The error of an attribute that is not there, with the nearest that is."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    near += [other for other in names if not near and name in other][:1]
    hint = f"; did you mean {near[0]}?" if near else ""
    return AttributeError(f"{what} has no {name}{hint} It has {', '.join(names)}" if hint
                          else f"{what} has no {name}; it has {', '.join(names)}")


def axes():
    """matplotlib's axes of a new figure."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plot() needs matplotlib: pip install matplotlib") from None
    return pyplot.subplots(layout="constrained")[1]


class Result:
    """One training step. Every key of `orrery run --json` is an attribute, as in `result.mfu_pct`; `json` has all of
    them. Seconds, bytes, tokens per second; rates of FLOPs in TFLOP/s."""

    def __init__(self, json):
        """`json`: the document, or a step of the simulator's, whose document is written when something is asked of it."""
        if isinstance(json, dict):
            self.json = json
        else:
            self._step = json

    def __getattr__(self, name):
        if name == "json" and "_step" in self.__dict__:
            self.json = _json.loads(self.__dict__.pop("_step").text())
            return self.json
        if name in ("json", "_step") or name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.json[name]
        except KeyError:
            raise missing("a step", name, [*self.json, "fits", "breakdown", "stages"]) from None

    def __getstate__(self):
        """Copies and pickles have the document: the simulator's step stays where it was made."""
        return {"json": self.json}

    def __dir__(self):
        return [*super().__dir__(), *self.json]

    @property
    def fits(self):
        """Whether the fullest GPU fits the device's memory."""
        return self.json["memory"]["fits"]

    @property
    def breakdown(self):
        """Exposed time of the busiest rank by cause: columns `part`, `seconds` and `share` of the step."""
        step = self.json["iteration_time_s"]
        parts = self.json["breakdown_s"].items()
        return table([{"part": part, "seconds": value, "share": value / step} for part, value in parts])

    @property
    def stages(self):
        """Bytes of a GPU of every pipeline stage at its fullest moment."""
        parts = ("parameters", "gradients", "optimizer", "activations", "buffers", "total")
        stages = enumerate(self.json["memory"]["stages"])
        return table([{"stage": i, **{part: stage[part] for part in parts}} for i, stage in stages])

    @property
    def traffic(self):
        """The communication table: a row for each dimension and operation."""
        return table(self.json["traffic"])

    def plot(self, ax=None):
        """Where the time goes, a bar for each cause, on matplotlib's `ax` or a new one, which is returned."""
        ax = ax if ax is not None else axes()
        parts = [(part, value) for part, value in self.json["breakdown_s"].items() if value > 0]
        ax.barh([part for part, _ in reversed(parts)], [value for _, value in reversed(parts)])
        ax.set_xlabel("exposed seconds of a step")
        ax.set_title(f"{self.json['scenario']}: {self.json['iteration_time_s']:.4g} s")
        return ax

    def __repr__(self):
        fits = "" if self.fits else ", OUT OF MEMORY"
        return (f"<orrery.Result {self.json['scenario']}: step {self.json['iteration_time_s']:.4g} s, "
                f"MFU {self.json['mfu_pct']:.1f} %{fits}>")

    def _repr_html_(self):
        memory = self.json["memory"]
        facts = [
            ("step time", f"{self.json['iteration_time_s']:.4g} s"),
            ("tokens per second", f"{self.json['tokens_per_s']:,.0f}"),
            ("MFU", f"{self.json['mfu_pct']:.1f} % ({self.json['mfu_causal_pct']:.1f} % with causal attention)"),
            ("memory per GPU", f"{memory['peak_bytes'] / 1e9:.1f} of {memory['capacity_bytes'] / 1e9:.1f} GB"
             + ("" if memory["fits"] else ", OUT OF MEMORY")),
        ]
        step = self.json["iteration_time_s"]
        parts = [(part, f"{seconds:.4g} s", f"{100 * seconds / step:.1f} %")
                 for part, seconds in self.json["breakdown_s"].items() if seconds > 0]
        return (f"<h4>{html.escape(str(self.json['scenario']))}, {self.json['gpus']} GPUs</h4>"
                + html_table(("", ""), facts) + html_table(("where the time goes", "exposed", "share"), parts))


class Sweep:
    """Every point of a cross product. `json`: rows with `set`, what was laid over the scenario, and the results."""

    def __init__(self, json):
        self.json = json

    def __len__(self):
        return len(self.json)

    def __iter__(self):
        return iter(self.json)

    @property
    def rows(self):
        """A row for each point: the varied keys, then the results; `status` says which of them there are."""
        return table([flat(row) for row in self.json])

    @property
    def best(self):
        """The point with the shortest step, None where none runs."""
        points = [row for row in self.json if row["status"] == "ok"]
        return min(points, key=lambda row: row["iteration_s"]) if points else None

    def plot(self, x=None, y="iteration_s", ax=None):
        """`y` over the varied key `x` (the first, where none is named) of the points that run, a line for each
        combination of the other keys."""
        ax = ax if ax is not None else axes()
        points = [flat(row) for row in self.json if row["status"] == "ok"]
        keys = list(self.json[0]["set"]) if self.json else []
        x = x if x is not None else (keys[0] if keys else None)
        lines = {}
        for point in points:
            lines.setdefault(tuple((key, point[key]) for key in keys if key != x), []).append((point[x], point[y]))
        for others, line in lines.items():
            if all(isinstance(value, (int, float)) for value, _ in line):
                line.sort()
            ax.plot(*zip(*line), marker="o", label=", ".join(f"{key} {value}" for key, value in others) or None)
        ax.set_xlabel(x or "")
        ax.set_ylabel(y)
        if len(lines) > 1:
            ax.legend()
        return ax

    def _view(self):
        columns = list(self.json[0]["set"]) if self.json else []
        rows = []
        for row in self.json[:50]:
            done = row["status"] == "ok"
            rows.append([*row["set"].values(), row["status"], f"{row['iteration_s']:.4g} s" if done else "",
                         f"{row['mfu_pct']:.1f} %" if done else ""])
        return [*columns, "status", "step", "MFU"], rows

    def _repr_html_(self):
        return html_table(*self._view()) + (f"<p>50 of {len(self)} points</p>" if len(self) > 50 else "")


class Search(Sweep):
    """The best layouts of a job, best first. `counts`: layouts looked at, infeasible, out of memory, pruned, simulated.
    """

    def __init__(self, json):
        super().__init__(json["rows"])
        self.counts = {key: value for key, value in json.items() if key != "rows"}

    @property
    def best(self):
        """The best layout, None where none fits."""
        return self.json[0] if self.json else None


class Advice:
    """What to change about a job, best first, as `orrery advise --json` has it."""

    def __init__(self, json):
        self.json = json

    @property
    def suggestions(self):
        """A row for each suggestion; `set` is what to lay over the scenario."""
        return table([{**{key: row[key] for key in ("kind", "saved_pct", "iteration_time_s", "peak_bytes", "reason",
                                                    "confidence", "needs")}, "set": typed_set(row["set"])}
                      for row in self.json["suggestions"]])

    def __len__(self):
        return len(self.json["suggestions"])

    def __getitem__(self, index):
        return self.json["suggestions"][index]

    def _repr_html_(self):
        rows = [(row["kind"], f"{row['saved_pct']:.1f} %", f"{row['iteration_time_s']:.4g} s",
                 f"{row['peak_bytes'] / 1e9:.1f} GB", row["reason"], row["confidence"], row["command"])
                for row in self.json["suggestions"]]
        return html_table(("change", "saves", "step", "memory", "why", "how sure", "command"), rows)


class Answer:
    """What a command answers: `json`, its document, whose keys are attributes; `rows`, its rows, as a table; `text`,
    what the command prints."""

    def __init__(self, command, json, text):
        """`text`: a function, which is asked when the text is."""
        self.command, self.json, self._text = command, json, text

    def __getattr__(self, name):
        if name in ("command", "json", "_text") or name.startswith("__"):
            raise AttributeError(name)
        if isinstance(self.json, dict) and name in self.json:
            return self.json[name]
        raise missing(f"the answer of {self.command}", name, list(self.json) if isinstance(self.json, dict) else [])

    def __dir__(self):
        return [*super().__dir__(), *(self.json if isinstance(self.json, dict) else [])]

    def __getstate__(self):
        return {"command": self.command, "json": self.json, "_text": str(self)}

    @property
    def rows(self):
        """The first list of rows of the document as a table; where it has none, its figures as the one row."""
        lists = [self.json] if isinstance(self.json, list) else list(self.json.values())
        for rows in lists:
            if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
                return table(rows)
        if not isinstance(self.json, dict):
            return table([])
        return table([{name: value for name, value in level(self.json).items() if not isinstance(value, list)}])

    def __str__(self):
        return self._text if isinstance(self._text, str) else self._text()

    def __repr__(self):
        return f"<orrery.Answer of {self.command}: {', '.join(self.json) if isinstance(self.json, dict) else 'rows'}>"

    def _repr_html_(self):
        return f"<pre>{html.escape(str(self))}</pre>"
