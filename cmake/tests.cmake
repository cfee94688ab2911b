# SPDX-License-Identifier: BSD-2-Clause
# Tests are found by their place and name:
#   tests/<folder>/test_*.c     a cmocka program; cases are counted one by one
#   tests/<folder>/system_*.py  a system test, run by the Python that ./dev test gives
#   tests/<folder>/check_*      a script, .sh or .py
# and labelled with their folder, plus `broker` (programs: `broker-program` too) where they need
# COJOIN_TEST_BROKERS; programs that do not are `memory`, and those without librdkafka's threads also
# `tsan`: what the sanitizers' builds run.
#
# A line with "ctest:" near the head of the file asks for more:
#   timeout=SECONDS   instead of 120 (scripts: 600)
#   serial            nothing else runs at the same time
#   full              only with ./dev test --full
enable_testing()
pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
set(COJOIN_PYTHON python3 CACHE STRING "Python with tests/interop/requirements.txt installed")
# librdkafka's RD_KAFKA_V_ macros, where a test or a benchmark produces on its own.
add_compile_options($<$<C_COMPILER_ID:Clang>:-Wno-gnu-statement-expression>)
set(programs_dir ${CMAKE_CURRENT_BINARY_DIR}/programs)
set(broker_folders broker interop)

function(cojoin_test file name default_timeout)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  file(STRINGS ${file} wishes REGEX "ctest:" LIMIT_INPUT 2000)
  set(labels ${folder})
  if(folder IN_LIST broker_folders OR file MATCHES "/system_")
    list(APPEND labels broker)
    if(file MATCHES "[.]c$")
      list(APPEND labels broker-program)
    endif()
  elseif(file MATCHES "[.]c$")
    list(APPEND labels memory)
    # The thread sanitizer crashes inside Debian's librdkafka, which uses the threads of C11.
    file(STRINGS ${file} client REGEX "#include .*(rdkafka|mock_cluster)")
    if(NOT client)
      list(APPEND labels tsan)
    endif()
  endif()
  if(wishes MATCHES "full")
    list(APPEND labels full)
  endif()
  if(wishes MATCHES "timeout=([0-9]+)")
    set(default_timeout ${CMAKE_MATCH_1})
  endif()
  if(COJOIN_SANITIZE)
    math(EXPR default_timeout "5 * ${default_timeout}")
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${default_timeout}
    SKIP_RETURN_CODE 77)
  if(wishes MATCHES "serial")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()

# What several test programs share.
file(GLOB shared CONFIGURE_DEPENDS tests/lib/*.c)
if(shared)
  add_library(cojoin_test_lib STATIC ${shared})
  target_compile_definitions(cojoin_test_lib PRIVATE _GNU_SOURCE)
  target_include_directories(cojoin_test_lib PRIVATE . tests)
  target_link_libraries(cojoin_test_lib PUBLIC cojoin_static PkgConfig::CMOCKA)
endif()

file(GLOB tests CONFIGURE_DEPENDS tests/*/test_*.c)
foreach(test ${tests})
  get_filename_component(name ${test} NAME_WE)
  add_executable(${name} ${test})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE)
  target_include_directories(${name} PRIVATE . tests)
  if(shared)
    target_link_libraries(${name} PRIVATE cojoin_test_lib)
  endif()
  if(name MATCHES "^test_tool_")
    target_link_libraries(${name} PRIVATE cojoin_tool)
  endif()
  target_link_libraries(${name} PRIVATE cojoin_static PkgConfig::CMOCKA)
  add_test(NAME ${name} COMMAND ${name})
  cojoin_test(${test} ${name} 120)
  if(NOT test MATCHES "/(broker|interop)/")
    list(APPEND memory_tests ${name})
  endif()
endforeach()
# Those that need no broker: what the thread sanitizer's build makes.
add_custom_target(memory_tests DEPENDS ${memory_tests})

# Programs that system tests and benchmarks run; COJOIN_PROGRAMS says where they are.
file(GLOB programs CONFIGURE_DEPENDS tests/*/programs/*.c benchmarks/*.c)
add_custom_target(programs)
foreach(program ${programs})
  get_filename_component(name ${program} NAME_WE)
  add_executable(program_${name} ${program})
  add_dependencies(programs program_${name})
  set_target_properties(program_${name} PROPERTIES OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY ${programs_dir})
  target_compile_definitions(program_${name} PRIVATE _GNU_SOURCE)
  target_link_libraries(program_${name} PRIVATE cojoin_static)
endforeach()

set(environment COJOIN_TOOL=$<TARGET_FILE:cojoin> COJOIN_PROGRAMS=${programs_dir}
  COJOIN_SOURCE_DIR=${CMAKE_CURRENT_SOURCE_DIR} COJOIN_BINARY_DIR=${CMAKE_CURRENT_BINARY_DIR})
file(GLOB scripts CONFIGURE_DEPENDS tests/*/system_*.py tests/*/check_*.sh tests/*/check_*.py)
foreach(script ${scripts})
  get_filename_component(name ${script} NAME_WE)
  set(interpreter ${COJOIN_PYTHON})
  if(script MATCHES "[.]sh$")
    set(interpreter bash)
  endif()
  add_test(NAME ${name} COMMAND ${interpreter} ${script})
  cojoin_test(${script} ${name} 600)
  set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment}")
endforeach()
