#!/bin/sh
# Installs what a build folder has, or removes it again, for `make install` and `make uninstall`:
# tools/install.sh ACTION FOLDER [PREFIX]. PREFIX is /usr/local unless the build names another;
# DESTDIR goes before it.
#
#   check       fails if this user may not write there
#   install     copies the files; root's loader finds the library afterwards
#   uninstall   removes the files of the last installation from FOLDER, and the folders of its own
set -eu
action=$1 folder=$2 prefix=${3:-}
manifest=$folder/install_manifest.txt
[ -n "$prefix" ] ||
    prefix=$(sed -n 's/^CMAKE_INSTALL_PREFIX:PATH=//p' "$folder/CMakeCache.txt" 2>/dev/null || :)
[ -n "$prefix" ] || prefix=/usr/local

# check_writable PATH: whether it can be made or changed, in the folder that there is.
check_writable() {
    path=$1
    while [ ! -e "$path" ]; do path=$(dirname "$path"); done
    if [ ! -w "$path" ]; then
        echo "error: you have no permission to write to '$path'" >&2
        echo "hint: \`sudo make $action\`${2:+, or \`make $action $2\`}" >&2
        exit 3
    fi
}

update_loader() {
    if [ -z "${DESTDIR:-}" ] && [ "$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null; then
        ldconfig
    fi
}

install_files() {
    rm -f "$manifest" # of an installation by root
    cmake --install "$folder" --prefix "$prefix" >/dev/null
    update_loader
    echo "anyflash is installed in ${DESTDIR:-}$prefix; \`make uninstall\` removes it"
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "hint: '$prefix/bin' is not on PATH" ;;
    esac
}

# remove_file FILE: also the folders above it that are anyflash's own and are empty now.
remove_file() {
    above=$(dirname "$1")
    rm -f -- "$1"
    while case $above/ in */anyflash/*) rmdir -- "$above" 2>/dev/null ;; *) false ;; esac; do
        above=$(dirname "$above")
    done
}

uninstall_files() {
    if [ ! -f "$manifest" ]; then
        echo "error: nothing is known to be installed from '$folder'" >&2
        exit 1
    fi
    IFS= read -r file <"$manifest" || :
    check_writable "$(dirname "${DESTDIR:-}$file")"
    while IFS= read -r file || [ -n "$file" ]; do
        remove_file "${DESTDIR:-}$file"
    done <"$manifest"
    rm -f "$manifest"
    update_loader
    echo "anyflash is no longer installed"
}

case $action in
check) action=install && check_writable "${DESTDIR:-}$prefix/bin" "PREFIX=\$HOME/.local" ;;
install) install_files ;;
uninstall) uninstall_files ;;
esac
