"""What the commands done in Python share: their options, their output, and how they end.

As the program's: errors on stderr with a hint, exit code 2 for wrong words, 3 where the
output cannot be written, 130 for Ctrl-C, and quietly by SIGPIPE where nobody reads on.
"""

import difflib
import os
import signal
import sys
import textwrap

WIDTH = 80


class Usage(Exception):
    """Words that a command does not take, and what to do about it."""

    def __init__(self, message, hint):
        super().__init__(message)
        self.hint = hint


def parse(words, options):
    """(what was given: {name: True or its value}, the other words).

    `options`: {"--json": None, "--python": "PATH", "-p": "--python"}: None takes no value, a
    word names the value, and a word with dashes is another name's.
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
            raise Usage(f"no option is called {ascii(name)}", hint)
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
    """The text in lines of WIDTH after `first`, and below it."""
    below = " " * len(first)
    return textwrap.fill(text, WIDTH, initial_indent=first, subsequent_indent=below)


def fail(message, hint=""):
    print(f"error: {message}", file=sys.stderr)
    if hint:
        print(f"hint: {hint}", file=sys.stderr)


def _failed(error):
    """3, with the cause: of a file that has a name, or else of the output."""
    if error.filename is not None:
        fail(error)
        return 3
    fail(f"cannot write to standard output: {error.strerror}")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter tries it again
    return 3


def run(main, words):
    """The exit code of main(words), however it ends."""
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
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
    except OSError as error:
        return _failed(error)
