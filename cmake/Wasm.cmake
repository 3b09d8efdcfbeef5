# build/PRESET/anyflash.wasm: the pure rooms and page/module.c, compiled for
# WebAssembly and linked without any import: what a pure room may not do (files,
# clock, environment, processes) does not link. Needs clang, lld and wasi-libc, and
# the sources of jansson and zstd that `make page` leaves in build/wasm. `make page`
# names its target; otherwise only builds with tests have it.

find_program(ANYFLASH_WASM_CC NAMES clang)
set(wasm_sources ${PROJECT_SOURCE_DIR}/build/wasm)
if(ANYFLASH_SANITIZE OR ANYFLASH_LIBRARY_SOURCES)
    return() # one build of it is enough
endif()
if(NOT ANYFLASH_WASM_CC OR NOT EXISTS /usr/include/wasm32-wasi
   OR NOT EXISTS ${wasm_sources}/jansson OR NOT EXISTS ${wasm_sources}/libzstd)
    message(STATUS "No WebAssembly module: clang, wasi-libc or ${wasm_sources} is missing")
    return()
endif()

set(wasm_folder ${PROJECT_BINARY_DIR}/wasm)
set(wasm_flags --target=wasm32-wasi -std=c11 -Os -DNDEBUG -ffunction-sections -fdata-sections
    -D_GNU_SOURCE -nostdlibinc -isystem /usr/include/wasm32-wasi
    $<$<BOOL:${ANYFLASH_PUBLISHED}>:-DAF_PUBLISHED>)
set(wasm_objects)

# The headers of the libraries, and no other of the system's.
file(COPY ${wasm_sources}/jansson/src/jansson.h ${wasm_sources}/libzstd/lib/zstd.h
     ${wasm_sources}/libzstd/lib/zstd_errors.h
     DESTINATION ${wasm_folder}/include)
file(WRITE ${wasm_folder}/include/jansson_config.h
"#define JSON_INLINE inline
#define JSON_INTEGER_IS_LONG_LONG 1
#define JSON_HAVE_LOCALECONV 0
#define JSON_HAVE_ATOMIC_BUILTINS 0
#define JSON_HAVE_SYNC_BUILTINS 0
#define JSON_PARSER_MAX_DEPTH 2048
")
# jansson reads and writes files, too; nothing calls that here, and it would pull in stdio.
file(WRITE ${wasm_folder}/include/jansson_private_config.h
"#include <stdio.h>
#undef stdin
#define stdin ((FILE *)0)
#define fopen(path, mode) ((FILE *)0)
#define fclose(file) 0
#define fgetc(file) EOF
#define fwrite(bytes, size, count, file) 0
#define HAVE_STDINT_H 1
#define INITIAL_HASHTABLE_ORDER 3
")

# anyflash_wasm_object(SOURCE FLAG ...): one object of the module.
function(anyflash_wasm_object source)
    string(MD5 object ${source})
    cmake_path(GET source STEM stem)
    set(object ${wasm_folder}/${stem}-${object}.o)
    add_custom_command(OUTPUT ${object}
        COMMAND ${ANYFLASH_WASM_CC} ${wasm_flags} ${ARGN} -MD -MF ${object}.d -c ${source}
                -o ${object}
        DEPENDS ${source} DEPFILE ${object}.d VERBATIM)
    set(wasm_objects ${wasm_objects} ${object} PARENT_SCOPE)
endfunction()

file(GLOB jansson CONFIGURE_DEPENDS ${wasm_sources}/jansson/src/*.c)
list(FILTER jansson EXCLUDE REGEX "hashtable_seed") # a clock: page/module.c sets the seed
file(GLOB zstd CONFIGURE_DEPENDS ${wasm_sources}/libzstd/lib/decompress/*.c)
foreach(name debug entropy_common error_private fse_decompress xxhash zstd_common)
    list(APPEND zstd ${wasm_sources}/libzstd/lib/common/${name}.c)
endforeach()
foreach(source ${jansson} ${zstd})
    anyflash_wasm_object(${source} -w -DHAVE_CONFIG_H -DZSTD_DISABLE_ASM -DXXH_NAMESPACE=ZSTD_
                         -I${wasm_folder}/include)
endforeach()

# The sources that page/module.c reaches: those of the pure rooms without the readers of
# wheels' binaries, environments, project files and lists of packages. A module that lacks
# one does not link; tests/page/test_module.py names one that it does not need.
set(wasm_own ${PROJECT_SOURCE_DIR}/engine/base/base.c)
foreach(room ${anyflash_rooms})
    if(anyflash_kind_of_${room} STREQUAL "pure"
       AND NOT room MATCHES "^kit/(config|project|doctor/rows)$")
        file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${room}/*.c)
        list(APPEND wasm_own ${sources})
    endif()
endforeach()
list(FILTER wasm_own EXCLUDE REGEX
     "/kit/formats/(binary|elf|fatbin|flash_kernel|wheel_archive|zip)")
list(FILTER wasm_own EXCLUDE REGEX "/kit/base/product")
list(FILTER wasm_own EXCLUDE REGEX "/kit/formats/(metadata|toml)")
list(FILTER wasm_own EXCLUDE REGEX "/kit/doctor/(doctor|installed)")
list(FILTER wasm_own EXCLUDE REGEX "/kit/catalog/catalog_(list|rows|update)")
get_target_property(embedded af_kit_catalog SOURCES)
foreach(room machine fit doctor doctor_log)
    get_target_property(embedded_room af_kit_${room} SOURCES)
    list(APPEND embedded ${embedded_room})
endforeach()
list(FILTER embedded INCLUDE REGEX "^${PROJECT_BINARY_DIR}/generated/")

# A short table of torch's symbols instead of the whole one.
add_executable(shorten_symbols EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/tools/shorten_symbols.c)
target_link_libraries(shorten_symbols PRIVATE packing)
anyflash_compile_options(shorten_symbols)
set(symbols ${PROJECT_SOURCE_DIR}/data/torch_symbols)
set(short ${wasm_folder}/short)
file(MAKE_DIRECTORY ${short})
add_custom_command(OUTPUT ${short}/torch_symbols.json ${short}/torch_symbols.bin
    COMMAND shorten_symbols ${symbols}.json ${symbols}.bin ${short}/torch_symbols.json
            ${short}/torch_symbols.bin
    DEPENDS shorten_symbols ${symbols}.json ${symbols}.bin
    COMMENT "Shortening the table of torch's symbols" VERBATIM)
anyflash_pack_symbols(${short} ${short}/torch_symbols)
list(FILTER embedded EXCLUDE REGEX "/embedded_torch_(builds|symbols).c$")
list(APPEND embedded ${short}_builds.c ${short}_symbols.c)

# The catalog without hashes if many rows have one: each takes 32 bytes of the page.
add_custom_command(OUTPUT ${wasm_folder}/short_catalog.c
    COMMAND pack_data catalog ${PROJECT_SOURCE_DIR}/data/wheels.jsonl
            ${wasm_folder}/short_catalog.c 2000
    DEPENDS pack_data ${PROJECT_SOURCE_DIR}/data/wheels.jsonl
    COMMENT "Packing the catalog of the page" VERBATIM)

list(FILTER embedded EXCLUDE REGEX "/embedded_catalog.c$")
list(APPEND embedded ${wasm_folder}/short_catalog.c)
foreach(source ${wasm_own} ${embedded})
    anyflash_wasm_object(${source} -Wall -Wextra -Werror=implicit-function-declaration
        -I${PROJECT_SOURCE_DIR} -I${PROJECT_SOURCE_DIR}/include
        -I${wasm_folder}/include -include ${PROJECT_SOURCE_DIR}/engine/base/forbidden.h)
endforeach()

set(wasm_module ${PROJECT_BINARY_DIR}/anyflash.wasm)
add_custom_command(OUTPUT ${wasm_module}
    COMMAND ${ANYFLASH_WASM_CC} --target=wasm32-wasi -mexec-model=reactor -nostartfiles
            -Wl,--no-entry -Wl,--gc-sections -Wl,--strip-all -Wl,-Map=${wasm_module}.map
            -o ${wasm_module} ${wasm_objects} -lc-printscan-long-double
    DEPENDS ${wasm_objects} COMMENT "Linking the WebAssembly module" VERBATIM)
add_custom_target(wasm DEPENDS ${wasm_module})
if(ANYFLASH_TESTS)
    set_property(TARGET wasm PROPERTY EXCLUDE_FROM_ALL OFF)
endif()
