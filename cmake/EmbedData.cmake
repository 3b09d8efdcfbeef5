# The project's data inside the program: tools/pack_data.c, built first, turns
# data/ into C source that becomes part of the room that reads it.

# anyflash_pack_symbols(OUT IN): OUT_builds.c and OUT_symbols.c from IN.json and IN.bin.
function(anyflash_pack_symbols out in)
    add_custom_command(OUTPUT ${out}_builds.c ${out}_symbols.c
        COMMAND pack_data tables kit/catalog/torch_symbols.h af_catalog_torch_builds
                af_catalog_torch_builds ${out}_builds.c ${in}.json
        COMMAND pack_data bytes torch_symbols ${in}.bin ${out}_symbols.c
        DEPENDS pack_data ${in}.json ${in}.bin
        COMMENT "Packing torch's symbols" VERBATIM)
endfunction()

function(anyflash_embed_data target)
    set(data ${PROJECT_SOURCE_DIR}/data)
    set(tables ${data}/torch.json ${data}/cuda.json ${data}/flash_attn_releases.json
        ${data}/flash_attn_4.json ${data}/traps.json)
    # What the tools that pack need of the kit's rooms: the whole rooms are fifty sources, for
    # which a build of the web page alone would wait.
    set(sources)
    foreach(name engine/base/base kit/base/memory kit/base/json kit/base/sha256
                 kit/base/text kit/formats/version kit/system/file kit/system/output
                 kit/catalog/catalog_rows kit/catalog/catalog_list
                 kit/catalog/catalog_pack)
        list(APPEND sources ${PROJECT_SOURCE_DIR}/${name}.c)
    endforeach()
    add_library(packing STATIC ${sources})
    target_link_libraries(packing PUBLIC PkgConfig::jansson PkgConfig::zstd)
    anyflash_compile_options(packing)
    add_executable(pack_data ${PROJECT_SOURCE_DIR}/tools/pack_data.c)
    target_link_libraries(pack_data PRIVATE packing)
    anyflash_compile_options(pack_data)

    set(generated ${PROJECT_BINARY_DIR}/generated)
    file(MAKE_DIRECTORY ${generated})
    add_custom_command(OUTPUT ${generated}/embedded_catalog.c
        COMMAND pack_data catalog ${data}/wheels.jsonl ${generated}/embedded_catalog.c
        DEPENDS pack_data ${data}/wheels.jsonl COMMENT "Packing the catalog" VERBATIM)
    add_custom_command(OUTPUT ${generated}/embedded_tables.c
        COMMAND pack_data tables kit/catalog/tables.h af_tables af_tables
                ${generated}/embedded_tables.c ${tables}
        DEPENDS pack_data ${tables} COMMENT "Packing the tables" VERBATIM)
    anyflash_pack_symbols(${generated}/embedded_torch ${data}/torch_symbols)
    target_sources(${target} PRIVATE ${generated}/embedded_catalog.c
                   ${generated}/embedded_tables.c ${generated}/embedded_torch_builds.c
                   ${generated}/embedded_torch_symbols.c)
endfunction()

# anyflash_embed_rows(TARGET NAME ...): the rows of data/NAME.tsv become part of TARGET.
function(anyflash_embed_rows target)
    foreach(name ${ARGN})
        set(source ${PROJECT_SOURCE_DIR}/data/${name}.tsv)
        set(generated ${PROJECT_BINARY_DIR}/generated/embedded_${name}.c)
        add_custom_command(OUTPUT ${generated}
            COMMAND pack_data rows ${name} ${source} ${generated}
            DEPENDS pack_data ${source} COMMENT "Packing ${name}" VERBATIM)
        target_sources(${target} PRIVATE ${generated})
    endforeach()
endfunction()

# Bytes are written as strings, which compile faster than lists of numbers.
set(anyflash_long_strings "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n")

# anyflash_embed_text(TARGET NAME FILE ...): the files, joined, become
# `const char af_NAME[]`, a text with its NUL, in TARGET.
function(anyflash_embed_text target name)
    set(bytes)
    foreach(file ${ARGN})
        set(source ${PROJECT_SOURCE_DIR}/${file})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
        file(READ ${source} part HEX)
        string(APPEND bytes ${part})
    endforeach()
    string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
    set(generated ${PROJECT_BINARY_DIR}/generated/${name}.c)
    string(JOIN ", " files ${ARGN})
    set(text "/* ${files}. */\n${anyflash_long_strings}extern const char af_${name}[];\n")
    string(APPEND text "const char af_${name}[] = \"${bytes}\";\n")
    file(CONFIGURE OUTPUT ${generated} CONTENT "${text}")
    target_sources(${target} PRIVATE ${generated})
endfunction()

# anyflash_embed_build_files(TARGET): the scripts of `anyflash build` and what they pack:
# `af_build_files` and `af_build_library` in TARGET (kit/compile/build_steps.h).
function(anyflash_embed_build_files target)
    set(generated ${PROJECT_BINARY_DIR}/generated/build_files.c)
    set(text "${anyflash_long_strings}#include \"kit/compile/build_steps.h\"\n")
    set(rows)
    set(number 0)
    set(kernels ${PROJECT_SOURCE_DIR}/packaging/kernels)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
         ${kernels}/*.py ${kernels}/*.cu* ${kernels}/*.h ${kernels}/*.gz)
    list(FILTER files EXCLUDE REGEX "assemble.py")
    foreach(file ${files} packaging/flash_attn_wheel.py packaging/version.py
                 packaging/wheel_file.py bindings/flash_attn/flash_attn_2_cuda/__init__.py
                 include/anyflash/anyflash.h LICENSE licenses/zstd.txt)
        set(source ${PROJECT_SOURCE_DIR}/${file})
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
        file(READ ${source} bytes HEX)
        string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
        string(APPEND text "static const char file_${number}[] = \"${bytes}\";\n")
        string(APPEND rows "{\"${file}\", file_${number}, sizeof file_${number} - 1},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    string(APPEND text "const struct af_build_file af_build_files[] = {\n${rows}{0, 0, 0}};\n")
    file(CONFIGURE OUTPUT ${generated} CONTENT "${text}" @ONLY)
    set(library ${PROJECT_BINARY_DIR}/generated/build_library.c)
    set(bytes ${ANYFLASH_CUDA_LIBRARY})
    if(TARGET anyflash_cuda AND NOT bytes)
        set(bytes $<TARGET_FILE:anyflash_cuda>)
        set(made anyflash_cuda)
    endif()
    add_custom_command(OUTPUT ${library}
        COMMAND ${CMAKE_COMMAND} -DIN=${bytes} -DOUT=${library} -DSTRIP=${CMAKE_STRIP}
                -P ${PROJECT_SOURCE_DIR}/cmake/embed_library.cmake
        DEPENDS ${made} ${ANYFLASH_CUDA_LIBRARY}
                ${PROJECT_SOURCE_DIR}/cmake/embed_library.cmake
        COMMENT "Packing libanyflash_cuda" VERBATIM)
    target_sources(${target} PRIVATE ${generated} ${library})
endfunction()

# anyflash_embed_causes(TARGET): the rows of data/causes.jsonl become part of TARGET.
function(anyflash_embed_causes target)
    set(causes ${PROJECT_SOURCE_DIR}/data/causes.jsonl)
    set(generated ${PROJECT_BINARY_DIR}/generated/embedded_causes.c)
    add_custom_command(OUTPUT ${generated}
        COMMAND pack_data tables kit/doctor/log/signature.h af_cause_table af_causes
                ${generated} ${causes}
        DEPENDS pack_data ${causes} COMMENT "Packing the causes" VERBATIM)
    target_sources(${target} PRIVATE ${generated})
endfunction()

# anyflash_embed_signatures(TARGET): data/signatures.jsonl becomes a constant of TARGET, after
# tools/pack_signatures.c has checked every row.
function(anyflash_embed_signatures target)
    add_executable(pack_signatures ${PROJECT_SOURCE_DIR}/tools/pack_signatures.c)
    target_link_libraries(pack_signatures PRIVATE af_kit_doctor_rows af_kit_system)
    anyflash_compile_options(pack_signatures)

    # tests/doctor/measure.py builds with fewer rows
    set(ANYFLASH_SIGNATURES ${PROJECT_SOURCE_DIR}/data/signatures.jsonl CACHE FILEPATH
        "rows of the log doctor")
    set(generated ${PROJECT_BINARY_DIR}/generated/embedded_signatures.c)
    add_custom_command(OUTPUT ${generated}
        COMMAND pack_signatures ${ANYFLASH_SIGNATURES} ${generated}
        DEPENDS pack_signatures ${ANYFLASH_SIGNATURES}
        COMMENT "Checking and packing the signatures" VERBATIM)
    target_sources(${target} PRIVATE ${generated})
endfunction()
