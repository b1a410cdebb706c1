# The one way in which this project makes targets. Each library says its name, sources,
# dependencies and tests in the same order, and the layer rule is checked at configure time:
# common <- protocol <- gpu <- modules. A module never links another module's library,
# only tests and the command line (which runs an agent of its own) see several.

set(KRUX_LAYER_common 0)
set(KRUX_LAYER_protocol 1)
set(KRUX_LAYER_gpu 2)
foreach(module sim limiter agent device_plugin runtime scheduler examples bench)
  set(KRUX_LAYER_${module} 3)
endforeach()
set(KRUX_LAYER_cli 4)
set(KRUX_LAYER_tests 5)
set(KRUX_LAYER_bench 5)

add_library(krux_options INTERFACE)
target_include_directories(krux_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(krux_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
                       -fno-omit-frame-pointer)
target_compile_definitions(krux_options INTERFACE _GNU_SOURCE KRUX_VERSION="${PROJECT_VERSION}")
if(KRUX_SANITIZE)
  # The enums of a C driver API arrive with any value that a program passes: to look at it is how it is
  # refused, and no fault.
  target_compile_options(krux_options INTERFACE -fsanitize=${KRUX_SANITIZE} -fno-sanitize=enum
                         -fno-sanitize-recover=all)
  target_link_options(krux_options INTERFACE -fsanitize=${KRUX_SANITIZE})
endif()

# The module that a folder of the tree belongs to: its first path component.
function(krux_module_of dir out)
  file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${dir})
  string(REGEX REPLACE "/.*" "" first "${path}")
  set(${out} ${first} PARENT_SCOPE)
endfunction()

# Fails when `target`, made in this folder, may not depend on `dep`.
function(krux_check_dependency target dep)
  if(NOT TARGET ${dep})
    return()
  endif()
  get_target_property(dep_module ${dep} KRUX_MODULE)
  if(NOT dep_module)
    return()
  endif()
  krux_module_of(${CMAKE_CURRENT_SOURCE_DIR} module)
  if(module STREQUAL dep_module)
    return()
  endif()
  if(NOT KRUX_LAYER_${dep_module} LESS KRUX_LAYER_${module})
    message(FATAL_ERROR "${target} (${module}) must not depend on ${dep} (${dep_module}): "
                        "dependencies point common <- protocol <- gpu <- modules")
  endif()
endfunction()

function(krux_target_common target)
  krux_module_of(${CMAKE_CURRENT_SOURCE_DIR} module)
  set_target_properties(${target} PROPERTIES KRUX_MODULE ${module})
endfunction()

# krux_library(NAME name [SRCS ...] [DEPS ...] [TESTS ...] [TEST_DEPS ...])
# Static library `krux_<name>`, and one gtest binary `krux_<name>_test` from TESTS.
function(krux_library)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS;TESTS;TEST_DEPS" ${ARGN})
  set(target krux_${A_NAME})
  if(A_SRCS)
    add_library(${target} STATIC ${A_SRCS})
    set(scope PUBLIC)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  krux_target_common(${target})
  foreach(dep ${A_DEPS})
    krux_check_dependency(${target} ${dep})
  endforeach()
  target_link_libraries(${target} ${scope} krux_options ${A_DEPS})
  if(A_TESTS)
    krux_test(NAME ${A_NAME}_test SRCS ${A_TESTS} DEPS ${target} ${A_TEST_DEPS})
  endif()
endfunction()

# krux_executable(NAME file-name SRCS ... [DEPS ...])
function(krux_executable)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${A_NAME} ${A_SRCS})
  krux_target_common(${A_NAME})
  foreach(dep ${A_DEPS})
    krux_check_dependency(${A_NAME} ${dep})
  endforeach()
  target_link_libraries(${A_NAME} PRIVATE krux_options ${A_DEPS})
endfunction()

# krux_test(NAME name SRCS ... [DEPS ...] [LABELS ...] [ENV "K=V" ...])
# A gtest binary `krux_<name>`; each TEST is a ctest of its own. Tests may see several modules.
function(krux_test)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS;LABELS;ENV" ${ARGN})
  add_executable(krux_${A_NAME} ${A_SRCS})
  target_link_libraries(krux_${A_NAME} PRIVATE krux_options ${A_DEPS} GTest::gmock GTest::gtest_main)
  set(properties TIMEOUT 120)
  if(A_LABELS)
    list(APPEND properties LABELS "${A_LABELS}")
  endif()
  if(A_ENV)
    list(APPEND properties ENVIRONMENT "${A_ENV}")
  endif()
  gtest_discover_tests(krux_${A_NAME} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES ${properties})
endfunction()

# krux_fuzzer(NAME name SRCS ... [DEPS ...]): a libFuzzer binary; built with the fuzz preset only.
function(krux_fuzzer)
  cmake_parse_arguments(A "" "NAME" "SRCS;DEPS" ${ARGN})
  if(NOT KRUX_FUZZ)
    return()
  endif()
  add_executable(krux_${A_NAME} ${A_SRCS})
  target_link_libraries(krux_${A_NAME} PRIVATE krux_options ${A_DEPS})
  target_link_options(krux_${A_NAME} PRIVATE -fsanitize=fuzzer)
  if(NOT TARGET krux_fuzzers)
    add_custom_target(krux_fuzzers)
  endif()
  add_dependencies(krux_fuzzers krux_${A_NAME})
endfunction()
