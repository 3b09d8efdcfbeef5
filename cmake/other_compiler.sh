#!/bin/sh
# other_compiler.sh COMPILER REPLACED ARGUMENT ...: a compiler launcher of CMake that runs COMPILER.
compiler=$1
shift 2
exec "$compiler" "$@"
