# The kit: its libraries, its modules and the program. Needs the engine's modules.
find_package(PkgConfig REQUIRED)
if(ANYFLASH_STATIC)
    list(PREPEND CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
pkg_check_modules(jansson REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(elf REQUIRED IMPORTED_TARGET libelf)
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(lz4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(zlib REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(nettle REQUIRED IMPORTED_TARGET nettle)
pkg_check_modules(sqlite3 REQUIRED IMPORTED_TARGET sqlite3)

anyflash_module(json MODULES base LIBRARIES PkgConfig::jansson)
anyflash_module(formats MODULES json base LIBRARIES PkgConfig::elf PkgConfig::zstd
                PkgConfig::lz4 PkgConfig::zlib PkgConfig::nettle)
anyflash_module(machine MODULES formats json base LIBRARIES ${CMAKE_DL_LIBS})
anyflash_module(fit MODULES machine formats json base)
anyflash_embed_data(af_fit)
anyflash_module(plan MODULES fit machine formats json base)
anyflash_module(run MODULES plan fit machine formats json base
                LIBRARIES PkgConfig::sqlite3 ${CMAKE_DL_LIBS} m)
anyflash_embed_text(af_run known_answer_script src/run/known_answer.py)
anyflash_embed_text(af_run load_extensions_script src/run/load_extensions.py)
anyflash_embed_text(af_run sources data/sources.json)
anyflash_module(govern MODULES run plan fit machine formats json base)
anyflash_module(build MODULES govern run plan fit machine formats json base)
anyflash_embed_text(af_build build_driver_py src/build/driver.py)
anyflash_embed_text(af_build build_unpack_py src/build/unpack.py)
anyflash_embed_text(af_build build_cuda_home_py src/build/cuda_home.py)
anyflash_module(doctor MODULES fit machine formats json base)
anyflash_module(bench MODULES roof hw json base LIBRARIES m)
anyflash_embed_text(af_bench peers_script bench/peers/common.py bench/peers/torch.py
                    bench/peers/onnxruntime.py bench/peers/openvino.py bench/peers/onednn.py
                    bench/peers/openblas.py bench/peers/main.py)
anyflash_module(cli MODULES bench build govern run doctor plan fit machine formats json base
                LIBRARIES m)
# The commands use the engine through anyflash.h alone.
target_link_libraries(af_bench PUBLIC af_attn)
target_link_libraries(af_run PUBLIC af_attn)
target_link_libraries(af_cli PUBLIC af_attn)

add_executable(anyflash src/main.c)
target_link_libraries(anyflash PRIVATE af_cli)
anyflash_compile_options(anyflash)
install(TARGETS anyflash)
if(NOT ANYFLASH_FUZZ)
    include(cmake/Manual.cmake)
endif()
