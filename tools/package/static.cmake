# A program without shared libraries, with its data inside.

# Debian has fmt as a shared library or as headers alone, and yaml-cpp's own file names the shared library alone. With
# fmt 9 everything is compiled as for the shared one, so that a compiler cache knows it.
if(fmt_VERSION VERSION_LESS 10)
  add_library(orrery_fmt STATIC tools/package/fmt.cc)
  target_compile_definitions(orrery_fmt PUBLIC FMT_SHARED)
  set(fmt_library orrery_fmt)
else()
  set(fmt_library fmt::fmt-header-only)
endif()
find_library(yaml_library_static yaml-cpp REQUIRED)
set(yaml_library ${yaml_library_static})

# What ships, as an archive that the program takes in (scenarios/embedded_data.h).
file(GLOB_RECURSE shipped RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/calibration/*.yaml ${PROJECT_SOURCE_DIR}/scenarios/*.yaml
     ${PROJECT_SOURCE_DIR}/scenarios/published/residuals.csv ${PROJECT_SOURCE_DIR}/tests/published/*.yaml)
set(archive ${CMAKE_BINARY_DIR}/data.tar.gz)
list(TRANSFORM shipped PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE shipped_files)
list(JOIN shipped "\n" names)
file(WRITE ${CMAKE_BINARY_DIR}/data.list "${names}\n")
# The same contents are the same bytes: no times, and gzip's without a name.
add_custom_command(OUTPUT ${archive} DEPENDS ${shipped_files} ${CMAKE_BINARY_DIR}/data.list
                   WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                   COMMAND tar --format=ustar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=go-w
                           -I "gzip -9n" -T ${CMAKE_BINARY_DIR}/data.list -cf ${archive}
                   VERBATIM)
add_custom_target(orrery_data DEPENDS ${archive})
set_source_files_properties(scenarios/embedded_data.cc PROPERTIES OBJECT_DEPENDS ${archive}
                            COMPILE_DEFINITIONS "ORRERY_EMBEDDED_DATA=\"${archive}\"")
