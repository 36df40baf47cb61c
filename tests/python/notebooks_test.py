"""Do the notebooks of the documents run, cell after cell, on this program?"""

import contextlib
import importlib.util
import io
import json
import os
import subprocess
import sys
import unittest
from pathlib import Path

NOTEBOOKS = sorted((Path(os.environ["ORRERY_SOURCE_DIR"]) / "docs" / "notebooks").glob("*.ipynb"))


def has_jupyter():
    return all(importlib.util.find_spec(name) for name in ("nbconvert", "ipykernel"))


class Notebooks(unittest.TestCase):
    def test_there_are_three(self):
        self.assertGreaterEqual(len(NOTEBOOKS), 3)

    def test_cells_run_in_order(self):
        for path in NOTEBOOKS:
            notebook = json.loads(path.read_text(encoding="utf-8"))
            with self.subTest(path.name):
                names = {"__name__": "__main__"}
                for cell in notebook["cells"]:
                    if cell["cell_type"] != "code":
                        continue
                    self.assertEqual(cell["outputs"], [], "outputs are made by who runs it")
                    with contextlib.redirect_stdout(io.StringIO()):
                        exec(compile("".join(cell["source"]), path.name, "exec"), names)

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
