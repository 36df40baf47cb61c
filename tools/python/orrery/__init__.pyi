import os
from typing import Any, Callable, Iterable, Iterator, Mapping, Optional, Union

__version__: str

Scenario = Union[dict[str, Any], str, os.PathLike[str]]
Changes = Optional[Mapping[str, Any]]
Variations = Mapping[str, Union[str, Iterable[Any]]]
Progress = Optional[Callable[[int, int], object]]
Table = Any  # pandas.DataFrame where pandas is installed, else list[dict[str, Any]]

class InputError(ValueError):
    file: Optional[str]
    line: Optional[int]
    column: Optional[int]
    key: Optional[str]
    def __init__(self, message: str) -> None: ...

class Result:
    json: dict[str, Any]
    scenario: str
    gpus: int
    ranks_simulated: int
    events: int
    wall_s: float
    iteration_time_s: float
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    model_tflops_per_gpu: float
    hardware_tflops_per_gpu: float
    aggregate_pflops: float
    mfu_pct: float
    mfu_causal_pct: float
    hfu_pct: float
    breakdown_s: dict[str, float]
    memory: dict[str, Any]
    assumptions: list[str]
    provenance: dict[str, Any]
    @property
    def fits(self) -> bool: ...
    @property
    def breakdown(self) -> Table: ...
    @property
    def stages(self) -> Table: ...
    @property
    def traffic(self) -> Table: ...
    def __getattr__(self, name: str) -> Any: ...
    def _repr_html_(self) -> str: ...

class Sweep:
    json: list[dict[str, Any]]
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[dict[str, Any]]: ...
    @property
    def rows(self) -> Table: ...
    @property
    def best(self) -> Optional[dict[str, Any]]: ...
    def _repr_html_(self) -> str: ...

class Search(Sweep):
    counts: dict[str, int]

class Advice:
    json: dict[str, Any]
    @property
    def suggestions(self) -> Table: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    def _repr_html_(self) -> str: ...

def run(scenario: Scenario, set: Changes = None, ranks: str = "folded") -> Result: ...
def sweep(scenario: Scenario, vary: Variations, set: Changes = None, jobs: int = 0, progress: Progress = None,
          limit: int = 100_000) -> Sweep: ...
def search(scenario: Scenario, objective: str = "tokens_per_s", set: Changes = None, top: int = 10,
           vary: Optional[Variations] = None, jobs: int = 0, progress: Progress = None) -> Search: ...
def advise(scenario: Scenario, set: Changes = None, top: int = 5, pairs: int = 32, jobs: int = 0) -> Advice: ...
def shipped(kind: str) -> list[str]: ...
