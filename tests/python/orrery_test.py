"""Does the Python package say what the program says, refuse as it does, and let Python run beside it?"""

import copy
import json
import os
import pickle
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

import orrery

SMALL = {
    "name": "small",
    "cluster": {"device": "h100-sxm-80gb", "gpus": 16, "gpus_per_node": 8, "fabric": "ndr-rail"},
    "model": {"kind": "gpt", "layers": 8, "hidden": 2048, "heads": 16, "kv_heads": 16, "ffn_hidden": 8192,
              "vocab": 51200, "seq": 2048},
    "parallelism": {"tensor": 2, "pipeline": 2, "virtual_pipeline": 2, "sequence_parallel": True,
                    "sharding": "optimizer"},
    "batch": {"global": 16, "micro": 1},
    "precision": "bf16",
    "software": "nemo-23.09",
}


def program(*arguments):
    """The JSON that the program writes."""
    done = subprocess.run([os.environ["ORRERY_BINARY"], *arguments, "--json", "-"], capture_output=True, text=True,
                          check=True)
    return json.loads(done.stdout)


def without_clock(result):
    return {key: value for key, value in result.items() if key != "wall_s"}


class Runs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = Path(self.folder.name) / "small.yaml"
        self.file.write_text(json.dumps(SMALL), encoding="utf-8")  # JSON is YAML

    def test_a_dict_a_text_a_file_and_the_program_give_one_answer(self):
        said = without_clock(program("run", str(self.file)))
        text = "name: small\n" + "\n".join(f"{key}: {json.dumps(value)}" for key, value in SMALL.items()
                                            if key != "name")
        for scenario in (SMALL, text, self.file, str(self.file)):
            answer = without_clock(orrery.run(scenario).json)
            self.assertEqual(answer["iteration_time_s"], said["iteration_time_s"])
            self.assertEqual(answer["breakdown_s"], said["breakdown_s"])
            self.assertEqual(answer["traffic"], said["traffic"])
            self.assertEqual(answer["memory"]["peak_bytes"], said["memory"]["peak_bytes"])

    def test_a_step_can_be_copied_and_pickled_before_and_after_it_was_looked_at(self):
        fresh, seen = orrery.run(SMALL), orrery.run(SMALL)
        self.assertGreater(seen.iteration_time_s, 0)
        for result in (fresh, seen):
            for other in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
                self.assertEqual(other.json, result.json)
                self.assertEqual(other.mfu_pct, result.mfu_pct)

    def test_shipped_names_sets_and_ranks(self):
        said = program("run", "gpt3-6.7b-h100", "--set", "batch.micro=4", "--set", "recompute=full")
        result = orrery.run("gpt3-6.7b-h100", set={"batch.micro": 4, "recompute": "full"})
        self.assertEqual(result.iteration_time_s, said["iteration_time_s"])
        full = orrery.run(SMALL, ranks="full")
        self.assertEqual(full.ranks_simulated, 16)
        self.assertEqual(full.iteration_time_s, orrery.run(SMALL).iteration_time_s)
        modules = {"recompute": {"kind": "selective", "modules": ["mlp"]}}
        self.assertGreater(orrery.run(SMALL, set=modules).iteration_time_s, full.iteration_time_s)

    def test_results_have_attributes_tables_and_a_view(self):
        result = orrery.run(SMALL)
        self.assertTrue(result.fits)
        self.assertEqual(len(result.stages), 2)
        self.assertEqual(len(result.breakdown), len(result.breakdown_s))
        self.assertEqual(len(result.traffic), len(result.json["traffic"]))
        self.assertIn("mfu_pct", dir(result))
        self.assertIn("<table>", result._repr_html_())
        with self.assertRaisesRegex(AttributeError, "mfu_pct"):
            result.mfu
        shares = result.breakdown["share"] if hasattr(result.breakdown, "columns") else [
            row["share"] for row in result.breakdown]
        self.assertAlmostEqual(sum(shares), 1)

    def test_what_does_not_fit_is_an_answer(self):
        result = orrery.run(SMALL, set={"batch.micro": 256, "batch.global": 4096})
        self.assertFalse(result.fits)
        self.assertTrue(result.memory["would_fit"])
        self.assertIn("OUT OF MEMORY", repr(result))


class Commands(unittest.TestCase):
    """What the program does for the package."""

    def test_answers_are_the_programs(self):
        table = orrery.reproduce("megascale-eos")
        said = program("reproduce", "megascale-eos")
        self.assertEqual([row["cells"] for row in table.json["rows"]], [row["cells"] for row in said["rows"]])
        self.assertIn("MegaScale", str(table))
        self.assertEqual(len(table.rows), len(said["rows"]))
        rows = orrery.collective("eos-gpt3-175b", op="all_reduce", gpus=64, sizes="1MB:8MB:2").rows
        self.assertEqual(len(rows), 4)

    def test_scenarios_of_any_kind_are_taken(self):
        changed = {**SMALL, "recompute": "full"}
        self.assertGreater(orrery.compare(SMALL, changed).ThroughputSpeedup, 1)
        self.assertLess(orrery.compare(SMALL, set={"recompute": "full"}).ThroughputSpeedup, 1)
        self.assertTrue(orrery.traffic(SMALL).rows is not None)
        self.assertIn("forward", orrery.plan(SMALL))
        self.assertGreater(orrery.flops("gpt3-6.7b").parameters, 6e9)
        self.assertIn("--tensor-model-parallel-size 2", orrery.export("megatron", SMALL))
        with tempfile.TemporaryDirectory() as folder:
            page = orrery.report(SMALL, Path(folder) / "step.html")
            self.assertIn("<html", page.read_text(encoding="utf-8"))

    def test_what_is_wrong_is_one_error(self):
        with self.assertRaises(orrery.InputError) as caught:
            orrery.traffic({**SMALL, "batch": {"global": 16, "mikro": 1}})
        self.assertIn("mikro", str(caught.exception))
        self.assertEqual(caught.exception.file, "scenario")
        with self.assertRaises(orrery.InputError):
            orrery.reproduce("no-such-table")


class Values(unittest.TestCase):
    def test_mappings_are_merged_and_numbers_stay_numbers(self):
        self.assertEqual(orrery.run(SMALL, set={"parallelism": {"tensor": 4}}).iteration_time_s,
                         orrery.run(SMALL, set={"parallelism.tensor": 4}).iteration_time_s)
        rows = orrery.sweep(SMALL, {"batch.micro": [1, 2]})
        from orrery import _results
        self.assertEqual([_results.flat(row)["batch.micro"] for row in rows], [1, 2])

    def test_numpy_is_taken(self):
        class Scalar:  # as numpy's
            def tolist(self):
                return 2
        self.assertEqual(orrery.run(SMALL, set={"batch.micro": Scalar()}).iteration_time_s,
                         orrery.run(SMALL, set={"batch.micro": 2}).iteration_time_s)

    def test_a_wrong_attribute_names_the_nearest(self):
        with self.assertRaisesRegex(AttributeError, "did you mean iteration_time_s"):
            orrery.run(SMALL).iteration_time


class Refusals(unittest.TestCase):
    def test_a_mistake_names_its_place(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "bad.yaml"
            file.write_text("name: bad\nbatch: {global: 16, mikro: 1}\n", encoding="utf-8")
            with self.assertRaises(orrery.InputError) as caught:
                orrery.run(file)
        error = caught.exception
        self.assertEqual((error.file, error.line), (str(file), 2))
        self.assertIn("mikro", str(error))
        self.assertIsInstance(error, ValueError)

    def test_the_key_is_named(self):
        with self.assertRaises(orrery.InputError) as caught:
            orrery.run(SMALL, set={"parallelism.tensor": 3})
        self.assertIn("tensor", str(caught.exception))
        with self.assertRaises(orrery.InputError) as caught:
            orrery.run(SMALL, set={"batch.micro": "many"})
        self.assertEqual(caught.exception.key, "batch.micro")
        for wrong in (lambda: orrery.run(SMALL, ranks="some"), lambda: orrery.run("no-such-scenario"),
                      lambda: orrery.search(SMALL, objective="speed"), lambda: orrery.sweep(SMALL, {}),
                      lambda: orrery.search(SMALL, objective="cost")):
            self.assertRaises(orrery.InputError, wrong)
        self.assertRaises(TypeError, lambda: orrery.run(7))


class Studies(unittest.TestCase):
    def test_a_sweep_tells_of_every_point_and_agrees_with_runs(self):
        told = []
        sweep = orrery.sweep(SMALL, {"batch.micro": [1, 2], "recompute": ["none", "full"]},
                             progress=lambda done, count: told.append((done, count)))
        self.assertEqual(sorted(told), [(1, 4), (2, 4), (3, 4), (4, 4)])
        self.assertEqual(len(sweep), 4)
        for row in sweep:
            self.assertEqual(row["iteration_s"], orrery.run(SMALL, set=row["set"]).iteration_time_s)
        self.assertEqual(sweep.best["iteration_s"], min(row["iteration_s"] for row in sweep))
        self.assertEqual(len(sweep.rows), 4)
        self.assertIn("batch.micro", sweep._repr_html_())
        self.assertEqual(len(orrery.sweep(SMALL, {"batch.micro": "1:2:2"})), 2)

    def test_what_progress_raises_ends_a_sweep(self):
        class Enough(Exception):
            pass

        def stop(done, count):
            raise Enough

        self.assertRaises(Enough, lambda: orrery.sweep(SMALL, {"batch.micro": [1, 2]}, progress=stop))
        self.assertGreater(orrery.run(SMALL).iteration_time_s, 0)  # the lock is free again

    def test_a_search_finds_what_the_program_finds(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "small.yaml"
            file.write_text(json.dumps(SMALL), encoding="utf-8")
            said = program("search", str(file), "--top", "3")
        told = []
        search = orrery.search(SMALL, top=3, progress=lambda done, count: told.append(done))
        self.assertEqual([row["set"] for row in search], [row["set"] for row in said["rows"][:3]])
        self.assertEqual(search.best["iteration_s"], said["rows"][0]["iteration_s"])
        self.assertEqual(search.counts["simulated"] + search.counts["out_of_memory"], len(told))

    def test_advice_is_what_runs_say(self):
        advice = orrery.advise(SMALL)
        first = advice[0]
        self.assertEqual(orrery.run(SMALL, set=first["set"]).iteration_time_s, first["iteration_time_s"])
        self.assertEqual(len(advice.suggestions), len(advice))
        self.assertIn(first["kind"], advice._repr_html_())

    def test_python_runs_beside_a_study(self):
        ticks, stop = [], threading.Event()

        def tick():
            while not stop.is_set():
                ticks.append(time.monotonic())
                time.sleep(0.001)

        thread = threading.Thread(target=tick)
        thread.start()
        begin = time.monotonic()
        orrery.search(SMALL, top=1, jobs=1)
        took = time.monotonic() - begin
        stop.set()
        thread.join()
        within = [at for at in ticks if begin < at < begin + took]
        self.assertGreater(len(within), 10)  # a held lock would leave none in between

    def test_names_that_ship(self):
        self.assertIn("h100-sxm-80gb", orrery.shipped("devices"))
        self.assertIn("gpt3-175b", orrery.shipped("models"))


if __name__ == "__main__":
    unittest.main()
