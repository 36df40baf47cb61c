// Catch2 2 compiles its main once, here; Catch2 3 needs a session of its own because the tests link one library.
#ifdef ORRERY_CATCH2_3
#include <catch2/catch_session.hpp>
int main(int argc, char** argv) { return Catch::Session().run(argc, argv); }
#else
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
#endif
