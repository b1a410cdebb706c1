# libkrux.so itself. It must load into any image with glibc 2.17 or newer and may need nothing but
# libc.so.6, so zig's clang builds it against glibc 2.17 in every preset, always optimised and never
# with sanitizers (a preloaded library can't bring a sanitizer's runtime into a program).
set(KRUX_ZIG ${KRUX_DEPS_DIR}/venv/bin/python -m ziglang)
set(KRUX_LIMITER_SOURCES
  compute/cost_model.cc compute/gate.cc compute/keeper.cc compute/stream_track.cc
  compute/streams.cc compute/thread_words.cc
  driver/driver.cc driver/elf_lookup.cc driver/loader.cc
  entry/arrays.cc entry/context.cc entry/copy.cc entry/copy_shaped.cc entry/entry.cc entry/external.cc entry/graphs.cc
  entry/init.cc entry/launch.cc entry/local_memory.cc entry/lookup.cc entry/memory.cc
  entry/modules.cc entry/nvml.cc entry/pools.cc entry/query.cc entry/sync.cc
  entry/virtual_memory.cc
  life/agent_link.cc life/devices.cc life/log.cc life/pages.cc life/process.cc
  life/self_check.cc
  memory/account.cc memory/allocations.cc memory/contexts.cc memory/graph_memory.cc
  memory/image.cc memory/physical_handles.cc memory/pools.cc)
set(KRUX_LIMITER_FLAGS -target x86_64-linux-gnu.2.17 -std=c++20 -O2 -g -fPIC -fvisibility=hidden
  -fno-exceptions -fno-rtti -fno-threadsafe-statics -ftls-model=initial-exec -fno-omit-frame-pointer
  -fno-sanitize=undefined
  -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror
  -D_GNU_SOURCE -I${CMAKE_SOURCE_DIR} -isystem ${KRUX_CUDA_INCLUDE})
# zig builds its C runtime once into this folder; all presets share it.
set(KRUX_ZIG_ENV ${CMAKE_COMMAND} -E env ZIG_GLOBAL_CACHE_DIR=${KRUX_DEPS_DIR}/zig-cache
  ZIG_LOCAL_CACHE_DIR=${KRUX_DEPS_DIR}/zig-cache)

set(objects)
foreach(source ${KRUX_LIMITER_SOURCES})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/product/${source}.o)
  get_filename_component(folder ${object} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  add_custom_command(OUTPUT ${object}
    COMMAND ${KRUX_ZIG_ENV} ${KRUX_ZIG} c++ ${KRUX_LIMITER_FLAGS} -MD -MF ${object}.d
            -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d VERBATIM
    COMMENT "Compiling limiter/${source} for libkrux.so")
  list(APPEND objects ${object})
endforeach()

set(KRUX_LIMITER_LIBRARY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/libkrux.so)
add_custom_command(OUTPUT ${KRUX_LIMITER_LIBRARY}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}
  COMMAND ${KRUX_ZIG_ENV} ${KRUX_ZIG} c++ -target x86_64-linux-gnu.2.17 -shared
          -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/limiter.map -Wl,-soname,libkrux.so
          -Wl,-z,defs -Wl,--as-needed ${objects} -o ${KRUX_LIMITER_LIBRARY}
  # zig's stub of glibc 2.17 gives read, write, errno and the like from libpthread, which has copies
  # of them. libc.so.6 has them in every version, and a small image may have no libpthread.so.0, so
  # the library's name for it is overwritten in place (same length). A test reads the result.
  COMMAND sed -i "s/libpthread[.]so[.]0/libc.so.6\\x00\\x00\\x00\\x00\\x00\\x00/" ${KRUX_LIMITER_LIBRARY}
  DEPENDS ${objects} ${CMAKE_CURRENT_SOURCE_DIR}/limiter.map VERBATIM
  COMMENT "Linking libkrux.so")
add_custom_target(krux_limiter ALL DEPENDS ${KRUX_LIMITER_LIBRARY})
