# A Spack package: put this folder into a repository of packages as packages/orrery. There is no archive of a release to
# fetch yet, so that it builds sources that are there: spack dev-build orrery@0.3.0
from spack.package import *


class Orrery(CMakePackage):
    """Discrete-event simulator of large language model training on GPU clusters."""

    license("Apache-2.0")
    version("0.3.0")
    variant("mpi", default=False, description="spread sweeps and searches over MPI ranks")

    depends_on("cxx", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("boost@1.74: +graph")
    depends_on("yaml-cpp@0.7:")
    depends_on("fmt@9:")
    depends_on("cli11@2:")
    depends_on("nlohmann-json@3.11:")
    depends_on("tomlplusplus")
    depends_on("zlib-api")
    depends_on("sqlite")
    depends_on("protobuf")
    depends_on("mpi", when="+mpi")

    def cmake_args(self):
        return [
            self.define("ORRERY_TESTS", False),
            self.define("ORRERY_BENCHMARKS", False),
            self.define("ORRERY_GPU", "off"),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_MPI", "+mpi" not in self.spec),
        ]
