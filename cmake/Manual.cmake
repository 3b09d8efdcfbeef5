# The man page and the completions, written by the program itself from its
# tables, and where they are installed.
set(manual_folder ${CMAKE_CURRENT_BINARY_DIR}/manual)
file(MAKE_DIRECTORY ${manual_folder})
set(manual_files)

function(anyflash_manual file)
    set(target ${manual_folder}/${file})
    add_custom_command(OUTPUT ${target} COMMAND anyflash ${ARGN} > ${target}
                       DEPENDS anyflash VERBATIM)
    set(manual_files ${manual_files} ${target} PARENT_SCOPE)
endfunction()

anyflash_manual(anyflash.1 help --man)
anyflash_manual(anyflash.bash completion bash)
anyflash_manual(_anyflash completion zsh)
anyflash_manual(anyflash.fish completion fish)
add_custom_target(manual ALL DEPENDS ${manual_files})

# anyflash_install_manual(SHARE COMPONENT): below the folder SHARE.
function(anyflash_install_manual share component)
    install(FILES ${manual_folder}/anyflash.1 DESTINATION ${share}/man/man1
            COMPONENT ${component})
    install(FILES ${manual_folder}/anyflash.bash RENAME anyflash
            DESTINATION ${share}/bash-completion/completions COMPONENT ${component})
    install(FILES ${manual_folder}/_anyflash DESTINATION ${share}/zsh/site-functions
            COMPONENT ${component})
    install(FILES ${manual_folder}/anyflash.fish DESTINATION ${share}/fish/vendor_completions.d
            COMPONENT ${component})
endfunction()
anyflash_install_manual(${CMAKE_INSTALL_DATADIR} program)
