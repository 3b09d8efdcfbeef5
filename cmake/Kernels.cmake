# anyflash_cpu_kernels(ROOM): the instruction set of each file of ROOM that is
# named for one (*_avx512.c), so that one library serves every machine of an
# architecture. Files whose instruction set the compiler or the architecture
# lacks are left out; the others define AF_HAVE_x for the room.
include(CheckCCompilerFlag)

# Level, its architectures (a pattern), its flags.
set(ANYFLASH_AVX2 "-mavx2 -mfma -mf16c")
set(ANYFLASH_AVX512 "${ANYFLASH_AVX2} -mavx512f -mavx512bw -mavx512dq -mavx512vl")
set(ANYFLASH_KERNEL_LEVELS
    "avx2|x86_64|${ANYFLASH_AVX2}"
    "avx512|x86_64|${ANYFLASH_AVX512}"
    "avx512bf16|x86_64|${ANYFLASH_AVX512} -mavx512bf16"
    "neon|aarch64|")

# Adds `flags` to the kernel files of `level`, or takes them out of the build.
function(anyflash_kernel_level room level use flags)
    anyflash_room_target(${room} target)
    file(GLOB files ${PROJECT_SOURCE_DIR}/${room}/*_${level}.c)
    if(use)
        # No fuzz target runs a kernel, and libFuzzer's counters in their unrolled
        # loops take clang minutes.
        set(without "$<$<BOOL:${ANYFLASH_FUZZ}>:-fno-sanitize=all>")
        set_source_files_properties(${files} PROPERTIES
                                    COMPILE_OPTIONS "-O3;${flags};${without}")
        string(TOUPPER ${level} name)
        target_compile_definitions(${target} PRIVATE AF_HAVE_${name})
    else()
        set_source_files_properties(${files} PROPERTIES HEADER_FILE_ONLY ON)
    endif()
endfunction()

function(anyflash_cpu_kernels room)
    string(REPLACE "AMD64" "x86_64" processor ${CMAKE_SYSTEM_PROCESSOR})
    string(REPLACE "arm64" "aarch64" processor ${processor})
    anyflash_kernel_level(${room} scalar ON "")
    foreach(entry ${ANYFLASH_KERNEL_LEVELS})
        string(REPLACE "|" ";" entry ${entry})
        list(GET entry 0 level)
        list(GET entry 1 architecture)
        list(GET entry 2 flags)
        set(use OFF)
        if(processor STREQUAL architecture)
            check_c_compiler_flag("${flags}" ANYFLASH_COMPILER_HAS_${level})
            set(use ${ANYFLASH_COMPILER_HAS_${level}})
        endif()
        string(REPLACE " " ";" flags "${flags}")
        anyflash_kernel_level(${room} ${level} "${use}" "${flags}")
    endforeach()
endfunction()
