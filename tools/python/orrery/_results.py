"""What runs and studies return: the simulator's JSON with attributes, tables and a view for notebooks."""

import html
import json as _json


def table(rows):
    """Rows (dicts) as a pandas DataFrame where pandas is installed, else as they are."""
    try:
        import pandas
    except ImportError:
        return rows
    return pandas.DataFrame(rows)


def html_table(columns, rows):
    cells = lambda row, tag: "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)
    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return f"<table><thead><tr>{cells(columns, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def flat(row):
    """A row of a study with its settings as columns beside its results."""
    return {**row["set"], **{key: value for key, value in row.items() if key != "set"}}


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
            raise AttributeError(f"a step has no {name}; it has {', '.join(self.json)}") from None

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
        return table([{key: row[key] for key in ("kind", "saved_pct", "iteration_time_s", "peak_bytes", "reason",
                                                 "confidence", "needs", "set")} for row in self.json["suggestions"]])

    def __len__(self):
        return len(self.json["suggestions"])

    def __getitem__(self, index):
        return self.json["suggestions"][index]

    def _repr_html_(self):
        rows = [(row["kind"], f"{row['saved_pct']:.1f} %", f"{row['iteration_time_s']:.4g} s",
                 f"{row['peak_bytes'] / 1e9:.1f} GB", row["reason"], row["confidence"], row["command"])
                for row in self.json["suggestions"]]
        return html_table(("change", "saves", "step", "memory", "why", "how sure", "command"), rows)
