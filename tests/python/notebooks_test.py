"""Do the notebooks of the documents run, cell after cell, on this program?"""

import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

NOTEBOOKS = sorted((Path(os.environ["ORRERY_SOURCE_DIR"]) / "docs" / "notebooks").glob("*.ipynb"))


NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")


def figures_of(cell):
    """How many pictures are stored with a cell."""
    return sum("image/png" in output.get("data", {}) for output in cell["outputs"])


def stored_text(cell):
    """What a cell printed when it was stored."""
    return "".join("".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream")


def has_jupyter():
    return all(importlib.util.find_spec(name) for name in ("nbconvert", "ipykernel"))


class Notebooks(unittest.TestCase):
    def test_there_are_three(self):
        self.assertGreaterEqual(len(NOTEBOOKS), 3)

    def test_cells_run_in_order_and_print_what_is_stored(self):
        for path in NOTEBOOKS:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            with self.subTest(path.name):
                names = {"__name__": "__main__"}
                for cell in notebook["cells"]:
                    if cell["cell_type"] != "code":
                        continue
                    printed = io.StringIO()
                    with contextlib.redirect_stdout(printed):
                        exec(compile("".join(cell["source"]), path.name, "exec"), names)
                    if not figures_of(cell):
                        self.check_stored(printed.getvalue(), stored_text(cell))

    def check_stored(self, printed, stored):
        """The same words, and numbers as near as predictions of one release are to those of the next."""
        self.assertEqual(NUMBER.sub("#", printed), NUMBER.sub("#", stored), "run tools/notebooks")
        for now, then in zip(NUMBER.findall(printed), NUMBER.findall(stored)):
            now, then = (float(text.replace(",", "")) for text in (now, then))
            self.assertLessEqual(abs(now - then), 0.05 * max(abs(now), abs(then)), "run tools/notebooks")

    def test_answers_and_figures_are_stored(self):
        for path in NOTEBOOKS:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            with self.subTest(path.name):
                code = [cell for cell in cells if cell["cell_type"] == "code"]
                kinds = {output["output_type"] for cell in code for output in cell["outputs"]}
                self.assertIn("execute_result", kinds)
                self.assertNotIn("error", kinds)
                self.assertGreaterEqual(sum(map(figures_of, code)), 1)
                self.assertEqual([cell["execution_count"] for cell in code], list(range(1, 1 + len(code))))

    @unittest.skipUnless(has_jupyter(), "no nbconvert and ipykernel; install jupyter-nbconvert and python3-ipykernel")
    def test_jupyter_runs_them(self):
        for path in NOTEBOOKS:
            with self.subTest(path.name):
                done = subprocess.run(
                    [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--stdout", str(path)],
                    capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn('"output_type": "execute_result"', done.stdout)


if __name__ == "__main__":
    unittest.main()
