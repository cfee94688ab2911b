# SPDX-License-Identifier: BSD-2-Clause
# The examples, built inside the tree; tests/install builds them against the installed package.
file(GLOB examples CONFIGURE_DEPENDS examples/*.c examples/*.cpp)
foreach(example ${examples})
  get_filename_component(name ${example} NAME_WE)
  if(example MATCHES "[.]cpp$")
    enable_language(CXX)
  endif()
  add_executable(example_${name} ${example})
  set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/examples
    CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF)
  target_link_libraries(example_${name} PRIVATE cojoin_static)
endforeach()
