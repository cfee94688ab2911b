# SPDX-License-Identifier: BSD-2-Clause
# cmake --install: headers, both libraries, the tool, and what finds them: pkg-config cojoin,
# find_package(cojoin) with the targets cojoin::cojoin (shared) and cojoin::static.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/cojoin DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
  PATTERN "*.h" PATTERN "*.hpp")
install(TARGETS cojoin_shared cojoin_static EXPORT cojoin
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(COJOIN_TOOL)
  install(TARGETS cojoin RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES tools/cojoin.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cojoin)
install(EXPORT cojoin NAMESPACE cojoin:: FILE cojoinTargets.cmake DESTINATION ${package_dir})
configure_package_config_file(cmake/cojoinConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/cojoinConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a new minor version may break sources; see docs/ABI.md.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/cojoinConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cojoinConfig.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/cojoinConfigVersion.cmake DESTINATION ${package_dir})

# Paths in the .pc follow the file, so that a moved prefix goes on working.
file(RELATIVE_PATH COJOIN_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/cojoin.pc.in ${CMAKE_CURRENT_BINARY_DIR}/cojoin.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cojoin.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
