# The man page, written by the program from its tables, the completions, which
# tools/completions.py writes from the same tables; and where they are installed.
set(manual_folder ${CMAKE_CURRENT_BINARY_DIR}/manual)
set(completions ${CMAKE_CURRENT_SOURCE_DIR}/packaging/completions)
file(MAKE_DIRECTORY ${manual_folder})
add_custom_command(OUTPUT ${manual_folder}/anyflash.1
                   COMMAND anyflash help --man > ${manual_folder}/anyflash.1
                   DEPENDS anyflash VERBATIM)
add_custom_target(manual ALL DEPENDS ${manual_folder}/anyflash.1)

# anyflash_install_manual(SHARE COMPONENT): below the folder SHARE.
function(anyflash_install_manual share component)
    install(FILES ${manual_folder}/anyflash.1 DESTINATION ${share}/man/man1
            COMPONENT ${component})
    install(FILES ${completions}/anyflash.bash RENAME anyflash
            DESTINATION ${share}/bash-completion/completions COMPONENT ${component})
    install(FILES ${completions}/_anyflash DESTINATION ${share}/zsh/site-functions
            COMPONENT ${component})
    install(FILES ${completions}/anyflash.fish DESTINATION ${share}/fish/vendor_completions.d
            COMPONENT ${component})
endfunction()
anyflash_install_manual(${CMAKE_INSTALL_DATADIR} program)
