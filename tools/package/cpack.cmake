# Read by cpack. Without dpkg-shlibdeps it would go on and make Debian packages that depend on nothing.
find_program(ORRERY_SHLIBDEPS dpkg-shlibdeps)
if(CPACK_GENERATOR STREQUAL "DEB" AND NOT ORRERY_SHLIBDEPS)
  message(FATAL_ERROR "dpkg-shlibdeps, which finds what the packages depend on, is not installed; install dpkg-dev")
endif()
