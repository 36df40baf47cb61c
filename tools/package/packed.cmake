# What ships, parsed by a program of the build, for scenarios/packed_documents.cc to take in. That program is made of the
# sources that read documents, since the room that they lie in waits for what it writes.
file(GLOB_RECURSE packed RELATIVE ${PROJECT_SOURCE_DIR} CONFIGURE_DEPENDS
     ${PROJECT_SOURCE_DIR}/calibration/*.yaml ${PROJECT_SOURCE_DIR}/scenarios/*.yaml
     ${PROJECT_SOURCE_DIR}/scenarios/published/residuals.csv)
list(TRANSFORM packed PREPEND ${PROJECT_SOURCE_DIR}/ OUTPUT_VARIABLE packed_files)
list(JOIN packed "\n" packed_names)
set(packed_list ${CMAKE_BINARY_DIR}/packed.list)
file(CONFIGURE OUTPUT ${packed_list} CONTENT "${packed_names}\n" @ONLY)  # not touched where it stays the same

add_executable(orrery_pack tools/package/pack_documents.cc tools/report/csv.cc scenarios/packed_documents.cc
               scenarios/plain_yaml.cc scenarios/yaml.cc)
target_link_libraries(orrery_pack PRIVATE orrery_flags orrery_calibration ${yaml_library})

set(packed_archive ${CMAKE_BINARY_DIR}/packed.bin)
add_custom_command(OUTPUT ${packed_archive} DEPENDS orrery_pack ${packed_files} ${packed_list}
                   COMMAND orrery_pack ${PROJECT_SOURCE_DIR} ${packed_list} ${packed_archive}
                   VERBATIM)
add_custom_target(orrery_packed DEPENDS ${packed_archive})
set_source_files_properties(scenarios/packed_here.cc PROPERTIES OBJECT_DEPENDS ${packed_archive}
                            COMPILE_DEFINITIONS "ORRERY_PACKED_DOCUMENTS=\"${packed_archive}\"")
