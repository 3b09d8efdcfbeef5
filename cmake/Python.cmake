# What the Python package carries: the library without version links, which a
# wheel cannot hold, and the program, both beside the Python files and without
# their symbol tables. Its build: pyproject.toml.
target_link_options(anyflash_shared PRIVATE -Wl,-s)
install(FILES $<TARGET_FILE:anyflash_shared> RENAME libanyflash.so DESTINATION anyflash
        PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                    WORLD_READ WORLD_EXECUTE COMPONENT python)
if(TARGET anyflash)
    target_link_options(anyflash PRIVATE -Wl,-s)
    install(TARGETS anyflash RUNTIME DESTINATION anyflash/bin COMPONENT python)
endif()
