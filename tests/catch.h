// Catch2 2 (Debian 12) and Catch2 3 (Debian 13) keep their headers in different places and call some matchers by
// different names; tests include this one, which has the names of 3.
#pragma once
#include <string>

#ifdef ORRERY_CATCH2_3
#include <catch2/catch_all.hpp>
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
#else
#include <catch2/catch.hpp>
inline auto ContainsSubstring(const std::string& text) { return Catch::Contains(text); }
#endif
