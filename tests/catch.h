// Catch2 2 (Debian 12) and Catch2 3 keep their headers in different places; tests include this one.
#pragma once
#ifdef ORRERY_CATCH2_3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
