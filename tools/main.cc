// The program: everything is in the room's library, so that tests and benchmarks can link it.
#include "tools/commands.h"

int main(int argc, char** argv) { return orrery::tools::run_command_line(argc, argv); }
