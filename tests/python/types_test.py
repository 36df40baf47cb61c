"""Do a checker of types and the package agree, and are columns of its frames what their values are?"""

import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import orrery
from orrery import _results
from orrery_test import SMALL

RIGHT = """
from pathlib import Path
import orrery

result = orrery.run("gpt3-6.7b-h100", set={"batch.micro": 4})
seconds: float = result.iteration_time_s
gpus: int = result.gpus
sweep = orrery.sweep({"name": "x"}, {"batch.micro": [1, 2]}, progress=lambda done, count: print(done, count))
for row in sweep:
    print(row["status"])
best = orrery.search(Path("a.yaml"), top=3).best
if best is not None:
    print(best["iteration_s"])
text: str = orrery.export("megatron", {"name": "x"})
page: Path = orrery.report("gpt3-6.7b-h100", "step.html")
print(orrery.collective("ndr-rail", op="all_reduce", gpus=16, sizes="1MB:8MB:2").rows, seconds, gpus, text, page)
"""
# Each line is one mistake of a type.
WRONG = """import orrery
orrery.run(7)
seconds: str = orrery.run("x").iteration_time_s
orrery.search("x", top="three")
orrery.sweep("x")
orrery.no_such_command("x")
"""


def has(module):
    return importlib.util.find_spec(module) is not None


@unittest.skipUnless(has("mypy"), "no mypy; install mypy")
class Types(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.settings = self.folder / "mypy.ini"
        # pandas and matplotlib are there or not, with types or without.
        self.settings.write_text("[mypy]\nignore_missing_imports = True\n", encoding="utf-8")

    def mypy(self, program, *arguments):
        package = Path(orrery.__file__).parent.parent
        return subprocess.run([sys.executable, "-m", program, *arguments], capture_output=True, text=True, check=False,
                              cwd=self.folder, env={**os.environ, "MYPYPATH": str(package)})

    def checked(self, text):
        file = self.folder / "used.py"
        file.write_text(text, encoding="utf-8")
        return self.mypy("mypy", "--config-file", str(self.settings), "--strict", "--no-error-summary", str(file))

    def test_what_is_right_passes_and_every_mistake_is_found(self):
        right = self.checked(RIGHT)
        self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
        wrong = self.checked(WRONG)
        found = {int(line.split(":")[1]) for line in wrong.stdout.splitlines() if ": error: " in line}
        self.assertEqual(found, set(range(2, 1 + len(WRONG.splitlines()))), wrong.stdout)

    def test_the_stub_says_what_the_package_has(self):
        done = self.mypy("mypy.stubtest", "orrery", "--mypy-config-file", str(self.settings),
                         "--ignore-missing-stub")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Rows(unittest.TestCase):
    """What holds with pandas and without."""

    def test_rows_have_all_columns_and_no_mappings_but_what_is_set(self):
        rows = _results.table([{"a": {"b": 1, "c": None}, "set": {"x": 1}}, {"d": [1]}])
        rows = rows.to_dict("records") if hasattr(rows, "columns") else rows
        self.assertEqual([list(row) for row in rows], [["a.b", "a.c", "set", "d"]] * 2)
        self.assertEqual(rows[0]["set"], {"x": 1})
        self.assertEqual(rows[1]["d"], [1])

    def test_values_of_settings_are_what_was_meant(self):
        self.assertEqual(_results.typed_set({"a": "2", "b": "true", "c": "null", "d": "1e-3", "e": "fp8", "f": "[1]"}),
                         {"a": 2, "b": True, "c": None, "d": 1e-3, "e": "fp8", "f": "[1]"})


@unittest.skipUnless(has("pandas"), "no pandas; install python3-pandas")
class Frames(unittest.TestCase):
    def check(self, frame, **expected):
        """No column mixes numbers with anything; `expected`: kinds of some, by name with __ for the point."""
        self.assertGreater(len(frame), 0)
        for name in frame.columns:
            values = [value for value in frame[name] if isinstance(value, (int, float)) and value == value]
            if frame[name].dtype == object:
                self.assertEqual(values, [], f"{name} holds numbers among others")
        for name, kinds in expected.items():
            self.assertIn(frame[name.replace("__", ".")].dtype.kind, kinds, name)

    def test_columns_are_what_their_values_are(self):
        result = orrery.run(SMALL)
        self.check(result.breakdown, seconds="f", share="f")
        self.check(result.stages, stage="i", total="f")
        self.check(result.traffic, group="i", calls="f", dimension="O")
        self.check(orrery.traffic(SMALL).rows, simulated_bytes="f")
        # 64 sequences of a micro-batch are more than a replica has: that point has no figures, which are gaps then.
        sweep = orrery.sweep(SMALL, {"batch.micro": [1, 2, 64], "parallelism.virtual_pipeline": [None, 2],
                                     "parallelism.sequence_parallel": [True, False]}).rows
        self.check(sweep, batch__micro="i", parallelism__sequence_parallel="b", iteration_s="f", mfu_pct="f",
                   cost_usd="f", time_to_train_s="f", status="O")
        self.assertEqual(str(sweep["parallelism.virtual_pipeline"].dtype), "Int64")
        self.assertGreater(sweep["iteration_s"].isna().sum(), 0)
        search = orrery.search(SMALL, top=3).rows
        self.check(search, parallelism__tensor="i", iteration_s="f", peak_memory_gb="f")
        self.assertEqual(search["iteration_s"].idxmin(), 0)
        self.check(orrery.advise(SMALL).suggestions, saved_pct="f", peak_bytes="f")
        self.check(orrery.collective(SMALL, op="all_reduce", gpus=16, sizes="1MB:8MB:2").rows, time_us="f", bytes="if")
        self.check(orrery.reproduce("megascale-eos").rows, gpus="i", cells__iteration_time_s__error_pct="f")
        self.check(orrery.compare(SMALL, set={"recompute": "full"}).rows, ThroughputSpeedup="f", target__gpus="i")

    def test_a_setting_of_a_frame_is_run_again(self):
        rows = orrery.advise(SMALL).suggestions
        best = rows.iloc[0]
        self.assertEqual(orrery.run(SMALL, set=best["set"]).iteration_time_s, best["iteration_time_s"])


if __name__ == "__main__":
    unittest.main()
