# What the Python package carries: the two libraries and the program, beside the
# Python files and without their symbol tables. Its build: pyproject.toml.
foreach(library anyflash_shared anyflash_python)
    target_link_options(${library} PRIVATE -Wl,-s)
    install(FILES $<TARGET_FILE:${library}> DESTINATION anyflash
            PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                        WORLD_READ WORLD_EXECUTE COMPONENT python)
endforeach()
if(TARGET anyflash)
    target_link_options(anyflash PRIVATE -Wl,-s)
    target_link_options(anyflash_bench PRIVATE -Wl,-s)
    # The path of the build would leave its length in the file.
    set_target_properties(anyflash_bench PROPERTIES INSTALL_RPATH "$ORIGIN/.."
                          BUILD_WITH_INSTALL_RPATH ON)
    install(TARGETS anyflash anyflash_bench RUNTIME DESTINATION anyflash/bin COMPONENT python)
    # pip copies this folder to share/ of the environment.
    if(SKBUILD_DATA_DIR)
        anyflash_install_manual(${SKBUILD_DATA_DIR}/share python)
    endif()
endif()
