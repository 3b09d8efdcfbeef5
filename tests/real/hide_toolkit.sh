#!/bin/sh
# hide_toolkit.sh COMMAND...: runs it where no CUDA toolkit of the system can be seen: in a mount
# namespace of its own, its folders empty, its programs on PATH no programs, its variables unset.
# Needs root, or a system that lets users have namespaces.
set -eu
if [ -z "${TOOLKIT_HIDDEN:-}" ]; then
    user=$([ "$(id -u)" = 0 ] || echo --map-root-user)
    TOOLKIT_HIDDEN=1 exec unshare --mount $user --propagation private "$0" "$@"
fi
unset TOOLKIT_HIDDEN CUDA_HOME CUDA_PATH LIBRARY_PATH LD_LIBRARY_PATH CPATH CPLUS_INCLUDE_PATH
fields=$IFS
for program in nvcc ptxas cicc cudafe++ fatbinary nvlink; do
    IFS=:
    for folder in $PATH; do
        if [ -x "$folder/$program" ]; then
            mount --bind /dev/null "$folder/$program"
        fi
    done
    IFS=$fields
done
for folder in /usr/local/cuda-* /opt/cuda /usr/lib/cuda /usr/lib/nvidia-cuda-toolkit; do
    if [ -d "$folder" ]; then
        mount -t tmpfs -o size=1m none "$folder"
    fi
done
exec "$@"
