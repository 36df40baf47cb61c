# `cmake --install`, find_package(orrery) and the Debian packages: orrery (program, data, manual pages, completions),
# orrery-mpi (the plug-in that mpirun needs) and liborrery-dev (library, header, package file). Manual pages and
# completions are printed by the program itself while it is installed.
include(CMakePackageConfigHelpers)

install(TARGETS orrery RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY calibration scenarios DESTINATION ${CMAKE_INSTALL_DATADIR}/orrery COMPONENT program
        FILES_MATCHING PATTERN "*.yaml" PATTERN published/residuals.csv PATTERN kernels EXCLUDE)
install(DIRECTORY tests/published DESTINATION ${CMAKE_INSTALL_DATADIR}/orrery/tests COMPONENT program
        FILES_MATCHING PATTERN "*.yaml")
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)

foreach(package program=orrery mpi=orrery-mpi library=liborrery-dev)
  string(REPLACE "=" ";" package ${package})
  list(GET package 0 component)
  list(GET package 1 name)
  install(FILES tools/package/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name} COMPONENT ${component})
endforeach()

# An own folder of fixed name: the program looks for its plug-ins in ../lib/orrery.
foreach(module orrery_cuda orrery_hip)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION lib/orrery COMPONENT gpu OPTIONAL)
  endif()
endforeach()
if(TARGET orrery_mpi)
  install(TARGETS orrery_mpi LIBRARY DESTINATION lib/orrery COMPONENT mpi)
endif()

install(CODE "
  set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  set(program \"\${prefix}/${CMAKE_INSTALL_BINDIR}/orrery\")
  set(bash \"\${prefix}/${CMAKE_INSTALL_DATADIR}/bash-completion/completions\")
  set(zsh \"\${prefix}/${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions\")
  set(fish \"\${prefix}/${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d\")
  file(MAKE_DIRECTORY \${bash} \${zsh} \${fish})
  execute_process(COMMAND \${program} man --out \"\${prefix}/${CMAKE_INSTALL_MANDIR}\" COMMAND_ERROR_IS_FATAL ANY)
  file(GLOB pages \"\${prefix}/${CMAKE_INSTALL_MANDIR}/man*/orrery*.[15]\")
  execute_process(COMMAND gzip -9nf \${pages})
  execute_process(COMMAND \${program} completion bash OUTPUT_FILE \"\${bash}/orrery\" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND \${program} completion zsh OUTPUT_FILE \"\${zsh}/_orrery\" COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND \${program} completion fish OUTPUT_FILE \"\${fish}/orrery.fish\" COMMAND_ERROR_IS_FATAL ANY)
" COMPONENT program)

# The library: the rooms behind one header. A static build is for its program alone: its fmt is not to be had elsewhere.
if(NOT ORRERY_STATIC)
  set(rooms orrery_sim orrery_topology orrery_calibration orrery_workloads orrery_scenarios)
  set_target_properties(orrery_api PROPERTIES EXPORT_NAME orrery)
  target_include_directories(orrery_api INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(orrery_api INTERFACE cxx_std_20)
  install(TARGETS orrery_api orrery_flags ${rooms} EXPORT orrery ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT library)
  install(FILES tools/api/orrery.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/orrery COMPONENT library)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/orrery)
  install(EXPORT orrery NAMESPACE orrery:: FILE orreryTargets.cmake DESTINATION ${package} COMPONENT library)
  configure_package_config_file(tools/package/orreryConfig.cmake.in ${CMAKE_BINARY_DIR}/orreryConfig.cmake
                                INSTALL_DESTINATION ${package})
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/orreryConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/orreryConfig.cmake ${CMAKE_BINARY_DIR}/orreryConfigVersion.cmake
          DESTINATION ${package} COMPONENT library)
endif()

# `cpack --config build/release/CPackConfig.cmake` writes the Debian packages.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME orrery)
set(CPACK_PACKAGE_CONTACT "The orrery developers <orrery@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "discrete-event simulator of large language model training on GPU clusters")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program library)
if(TARGET orrery_mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_PROJECT_CONFIG_FILE ${PROJECT_SOURCE_DIR}/tools/package/cpack.cmake)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME orrery)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "graphviz, orrery-mpi")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME liborrery-dev)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS OFF)  # archives alone
set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "orrery (= ${PROJECT_VERSION}), libyaml-cpp-dev, libfmt-dev, libboost-dev, zlib1g-dev, cmake")
set(CPACK_DEBIAN_MPI_PACKAGE_NAME orrery-mpi)
set(CPACK_DEBIAN_MPI_PACKAGE_DEPENDS "orrery (= ${PROJECT_VERSION})")
string(CONCAT description "Model, cluster, parallel layout and training software go in. The time of\n"
              " one training step comes out, with where it goes, memory and traffic.")
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "This package holds the program and its data.\n ${description}")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "This package holds the C++ library.\n ${description}")
set(CPACK_COMPONENT_MPI_DESCRIPTION "This package spreads studies over MPI ranks.\n ${description}")
include(CPack)
