# Toolchain: zig as the C compiler, for the systems that `make release` builds for.
#
#   cmake --toolchain cmake/zig.cmake -DANYFLASH_TARGET=TARGET ...
#
# TARGET: x86_64-linux-gnu.2.28, aarch64-linux-gnu.2.28 (glibc 2.28 or newer),
# x86_64-linux-musl, aarch64-linux-musl (static programs), x86_64-windows-gnu,
# aarch64-macos.11.0. packaging/tools.sh installs zig. Without -mcpu, zig would compile for the
# processor it runs on; without -fno-sanitize, it would add traps to code that is not optimised.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANYFLASH_TARGET)
string(REGEX MATCH "^([a-z0-9_]+)-([a-z]+)" _ "${ANYFLASH_TARGET}")
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_MATCH_1})
set(zig_system_linux Linux)
set(zig_system_windows Windows)
set(zig_system_macos Darwin)
if(NOT DEFINED zig_system_${CMAKE_MATCH_2})
    message(FATAL_ERROR "cmake/zig.cmake does not know the target '${ANYFLASH_TARGET}'")
endif()
set(CMAKE_SYSTEM_NAME ${zig_system_${CMAKE_MATCH_2}})

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH zig_root)
file(GLOB zig_program ${zig_root}/build/release-tools/lib/python3*/site-packages/ziglang/zig)
if(NOT zig_program)
    message(FATAL_ERROR "zig is missing: packaging/tools.sh installs it")
endif()
set(zig_folder ${zig_root}/build/zig/${ANYFLASH_TARGET})
foreach(tool ar ranlib cc)
    set(zig_words ${tool})
    if(tool STREQUAL cc)
        set(zig_words "cc -target ${ANYFLASH_TARGET} -mcpu=baseline -fno-sanitize=undefined")
    endif()
    configure_file(${CMAKE_CURRENT_LIST_DIR}/zig_tool.in ${zig_folder}/${tool} @ONLY)
endforeach()
set(CMAKE_C_COMPILER ${zig_folder}/cc)
set(CMAKE_AR ${zig_folder}/ar)
set(CMAKE_RANLIB ${zig_folder}/ranlib)

# The kit's libraries are compiled as well. gcc compiles the kernels: those of clang are slower.
set(ANYFLASH_LIBRARY_SOURCES ON CACHE BOOL "")
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
    set(zig_kernel_cc gcc)
    if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
        set(zig_kernel_cc ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu-gcc)
    endif()
    set(ANYFLASH_KERNEL_CC ${zig_kernel_cc} CACHE STRING "")
endif()

set(CMAKE_FIND_ROOT_PATH ${zig_folder})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# Programs of the build, such as the one that packs data/, and tests run here.
if(CMAKE_SYSTEM_NAME STREQUAL "Windows")
    set(CMAKE_CROSSCOMPILING_EMULATOR wine)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
    set(CMAKE_CROSSCOMPILING_EMULATOR env)
else()
    set(CMAKE_CROSSCOMPILING_EMULATOR qemu-${CMAKE_SYSTEM_PROCESSOR}
        -L /usr/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
endif()
