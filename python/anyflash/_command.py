"""What the commands written in Python share: parsing options, output, and exit codes.

    sys.exit(_command.run(main, words))

The same as in the C program: errors on stderr with a hint; exit code 2 for wrong usage, 3 if
the output cannot be written, 130 for Ctrl-C; killed by SIGPIPE if the reader closes the pipe.
"""

import difflib
import os
import shlex
import signal
import subprocess
import sys
import textwrap

WIDTH = 80


class Usage(Exception):
    """Wrong usage of a command; `hint`: what to do about it."""

    def __init__(self, message, hint):
        super().__init__(message)
        self.hint = hint


def parse(words, options):
    """(the options: {name: True or its value}, the other words).

    `options`: {"--json": None, "--python": "PATH", "-p": "--python"}: None for an option
    without a value, the value's name, or for a short form the option it stands for.
    """
    given, rest, words = {}, [], list(words)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word == "-":
            rest.append(word)
            continue
        name, has_value, value = word.partition("=")
        if name not in options:
            near = difflib.get_close_matches(name, options, 1)
            hint = f"did you mean '{near[0]}'?" if near else "--help lists the options"
            raise Usage(f"unknown option {ascii(name)}", hint)
        if (options[name] or "").startswith("-"):
            name = options[name]
        if options[name] is None and has_value:
            raise Usage(f"option '{name}' takes no value", f"write '{name}'")
        if options[name] is not None and not has_value:
            if not words:
                what = options[name]
                raise Usage(f"option '{name}' needs a value", f"write '{name} {what}'")
            value = words.pop(0)
        given[name] = True if options[name] is None else value
    return given, rest


def wrapped(first, text):
    """`first` and the text, wrapped at WIDTH; later lines are indented to where it begins. The
    text may be another program's: what is not printable becomes a question mark."""
    text = "".join(c if c.isprintable() or c in "\t\r\n" else "?" for c in text)
    below = " " * len(first)
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=below)


def quoted(word):
    """The word as a shell reads it back, for commands that are printed to be pasted."""
    return subprocess.list2cmdline([word]) if os.name == "nt" else shlex.quote(word)


def fail(message, hint=""):
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


def _failed(error):
    """Prints why a file, or else the output, cannot be written; returns exit code 3."""
    if error.filename is not None:
        fail(error)
        return 3
    fail(f"cannot write to standard output: {error.strerror}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter flushes it again
    return 3


def run(main, words):
    """Runs main(words) and returns the exit code, also after errors and Ctrl-C."""
    try:
        code = main(words)
        sys.stdout.flush()
        return code
    except Usage as wrong:
        fail(wrong, wrong.hint)
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        if not hasattr(signal, "SIGPIPE"):  # Windows
            return 3
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except OSError as error:
        return _failed(error)
