# The kit: its rooms and the program. Needs the engine's rooms.
anyflash_room(kit/base LIBRARIES PkgConfig::jansson)
target_compile_definitions(af_kit_base PRIVATE $<$<BOOL:${ANYFLASH_PUBLISHED}>:AF_PUBLISHED>)
anyflash_room(kit/system LIBRARIES PkgConfig::sqlite3 m)
anyflash_room(kit/formats LIBRARIES PkgConfig::zstd PkgConfig::lz4
              PkgConfig::zlib)
anyflash_room(kit/machine)
anyflash_embed_rows(af_kit_machine distributions driver_cuda gpu_names)
anyflash_room(kit/catalog LIBRARIES PkgConfig::zstd)
anyflash_embed_data(af_kit_catalog)
anyflash_room(kit/fit)
anyflash_embed_rows(af_kit_fit amd_targets gpu_generations)
anyflash_room(kit/compile/offer LIBRARIES m)
anyflash_room(kit/doctor/log)
anyflash_embed_causes(af_kit_doctor_log)
anyflash_embed_rows(af_kit_doctor_log log_parts)
anyflash_room(kit/doctor/rows) # for the tool that packs them, and for tests
anyflash_room(kit/doctor)
anyflash_embed_signatures(af_kit_doctor)
anyflash_room(kit/answer)
anyflash_room(kit/config)
anyflash_room(kit/project)
anyflash_embed_rows(af_kit_project index_releases)
anyflash_room(page) # for its unit tests; cmake/Wasm.cmake makes the module
set_property(TARGET af_page PROPERTY EXCLUDE_FROM_ALL ON)
anyflash_room(kit/probe LIBRARIES ${CMAKE_DL_LIBS})
anyflash_embed_rows(af_kit_probe version_windows)
anyflash_room(kit/proof)
anyflash_embed_rows(af_kit_proof wheel_contents taken_names)
anyflash_embed_text(af_kit_proof torch_assertions data/torch_assertions.tsv)
anyflash_room(kit/install LIBRARIES m)
# `anyflash package install` unpacks the Python package: from here, or beside the program.
target_compile_definitions(af_kit_install PRIVATE
                           AF_PACKAGE_FOLDER="${CMAKE_INSTALL_LIBEXECDIR}/anyflash/python"
                           AF_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY python/anyflash DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/anyflash/python
        PATTERN __pycache__ EXCLUDE)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python ${PROJECT_BINARY_DIR}/python SYMBOLIC)
anyflash_embed_text(af_kit_install known_answer_script kit/install/known_answer.py)
anyflash_embed_text(af_kit_install load_extensions_script kit/install/load_extensions.py)
anyflash_embed_text(af_kit_install sources data/sources.json)
anyflash_room(kit/compile)
anyflash_embed_build_files(af_kit_compile)
# The commands use the engine through anyflash.h alone.
anyflash_room(kit/cli LIBRARIES af_engine_call m)

target_compile_definitions(af_kit_cli PRIVATE
                           AF_BENCH_FOLDER="${CMAKE_INSTALL_LIBEXECDIR}/anyflash")

add_executable(anyflash kit/cli/main.c)
target_link_libraries(anyflash PRIVATE af_kit_cli)
anyflash_compile_options(anyflash)
install(TARGETS anyflash COMPONENT program)
if(NOT ANYFLASH_FUZZ)
    include(cmake/Wasm.cmake)
    include(cmake/Manual.cmake)
endif()

# anyflash-bench, which `anyflash bench` starts. It measures the shared library.
anyflash_room(bench LIBRARIES anyflash_shared m)
add_executable(anyflash_bench bench/bench_main.c)
set_target_properties(anyflash_bench PROPERTIES OUTPUT_NAME anyflash-bench
    INSTALL_RPATH "$ORIGIN/../../${CMAKE_INSTALL_LIBDIR}")
target_link_libraries(anyflash_bench PRIVATE af_bench)
anyflash_compile_options(anyflash_bench)
install(TARGETS anyflash_bench DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/anyflash)
