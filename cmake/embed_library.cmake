# cmake -DIN=LIBRARY -DOUT=FILE.c -DSTRIP=PROGRAM -P embed_library.cmake: `af_build_library`
# (kit/compile/build_steps.h), the library without what only debuggers read. Without IN it is
# empty.
set(bytes "")
if(IN AND EXISTS "${IN}")
    execute_process(COMMAND "${STRIP}" -o "${OUT}.so" "${IN}" RESULT_VARIABLE failed
                    ERROR_QUIET)
    if(failed)
        file(COPY_FILE "${IN}" "${OUT}.so")
    endif()
    file(READ "${OUT}.so" bytes HEX)
    file(REMOVE "${OUT}.so")
endif()
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
file(WRITE "${OUT}" "#pragma GCC diagnostic ignored \"-Woverlength-strings\"\n"
     "#include \"kit/compile/build_steps.h\"\n"
     "static const char bytes[] = \"${bytes}\";\n"
     "const struct af_build_file af_build_library = {\"libanyflash_cuda.so\", bytes,\n"
     "                                               ${size}};\n")
