#!/usr/bin/env python3
"""Writes packaging/completions/ (bash, zsh, fish) from the program's own tables.

    tools/completions.py           write the three files
    tools/completions.py --check   fail if one of them is not up to date
"""
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "packaging/completions"

# Values of options with a closed set. Options whose argument is a path complete files.
VALUES = {"color": "auto always never", "dtype": "bf16 fp16",
          "prefer": "wheel torch-kernels torch-change build engine",
          "source": "auto path url", "toolkit": "auto system index"}
PATHS = ("FILE", "DIR", "PATH", "FOLDER", "ENV", "LIBRARY", "PYTHON", "CONFIG", "FROM")
WORDS = {"package": ["install"], "shim": ["install", "remove", "status"]}


def rows(path, macro):
    """The arguments of each `macro(...)` of a table, as C tokens; adjacent strings joined."""
    text = re.sub(r"/\*.*?\*/|^#.*?$", "", (ROOT / path).read_text(), flags=re.S | re.M)
    for start in re.finditer(rf"^{macro}\(", text, re.M):
        row, depth = [""], 1
        for token in re.finditer(r'"((?:[^"\\]|\\.)*)"|\'.\'|[(),]|[^\s"\'(),]+',
                                 text[start.end():]):
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            if depth == 0:
                break
            if token[0] == ",":
                row.append("")
            else:
                row[-1] += token[1] if token[1] is not None else token[0]
        yield [part.replace('\\"', '"') for part in row]


def strings(path, pattern):
    return re.findall(pattern, (ROOT / path).read_text(), re.M)


def tables():
    commands = {row[1]: row[3] for row in rows("kit/cli/commands.inc", "AF_COMMAND")}
    sets = {"AF_ON_ALL": set(commands)}
    definitions = strings("kit/cli/options.h", r"(AF_ON_[A-Z]+) = (AF_ON_[A-Z_ |]+)")
    for name, value in definitions:
        sets[name] = members(value, sets)
    options = []
    for _, name, letter, argument, on, group, text in rows("kit/cli/options.inc", "AF_OPTION"):
        if group != "AF_CLI_GROUP_HIDDEN":
            options.append((name, letter.strip("'0"), "" if argument == "NULL" else argument,
                            members(on, sets) & set(commands), text))
    return commands, options


def members(expression, sets):
    """The commands of "AF_ON_PLAN|AF_ON_FIND", of "AF_ON_ALL&~(AF_ON_HELP)"."""
    wanted, *without = expression.split("&~")
    found = set()
    for name in re.findall(r"AF_ON_[A-Z]+", wanted):
        found |= sets.get(name, {name[6:].lower()})
    for name in re.findall(r"AF_ON_[A-Z]+", " ".join(without)):
        found -= {name[6:].lower()}
    return found


def words_of(command):
    if command == "config":
        return strings("kit/cli/cmd_config.c", r'\{"([a-z]+)", "[\w.]+"\}')
    return WORDS.get(command, [])


def values_of(name):
    """The values of an option, or None if it takes a path or any text."""
    if name == "given":
        keys = strings("kit/machine/given.c", r'^    \{"(\w+)", af_given')
        return [f"{key}=" for key in keys]
    if name == "explain":
        causes = strings("data/causes.jsonl", r"^\{.*\}$")
        return ["all"] + [cause["id"] for cause in map(json.loads, causes) if "id" in cause]
    return VALUES[name].split() if name in VALUES else None


def bash(commands, options):
    lines = ["# bash completion for anyflash; written by tools/completions.py", "_anyflash() {",
             "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}",
             "  local command=doctor words= options= each",
             '  for each in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
             f"    case $each in {'|'.join(commands)}) command=$each; break ;; esac", "  done",
             "  if [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi",
             "  if [[ $word == '=' ]]; then word=; fi", "  COMPREPLY=()", "  case $before in"]
    others = []
    for name, letter, argument, _, _ in options:
        values = values_of(name)
        forms = f"--{name}|-{letter}" if letter else f"--{name}"
        if values:
            space = "compopt -o nospace; " if name == "given" else ""
            reply = f"COMPREPLY=($(compgen -W '{' '.join(values)}' -- \"$word\"))"
            lines.append(f"  {forms}) {space}{reply}; return ;;")
        elif argument:
            others.append(forms)
    lines += [f"  {'|'.join(others)}) return ;;", "  esac", "  case $command in"]
    for command in commands:
        names = " ".join(f"--{name}" for name, _, _, on, _ in options if command in on)
        lines.append(f"  {command}) options='{names}' words='{' '.join(words_of(command))}' ;;")
    lines += ["  esac", "  if [[ $COMP_CWORD == 1 || $command == help ]]; then",
              f"    words=\"$words {' '.join(commands)}\"", "  fi",
              '  if [[ $word == -* ]]; then words=$options; fi',
              '  COMPREPLY=($(compgen -W "$words" -- "$word"))', "}",
              "# where nothing of these fits, bash completes files",
              "complete -o default -F _anyflash anyflash"]
    return lines


def zsh_text(text):
    return re.sub(r"([\[\]:\\])", r"\\\1", text.replace("`", "")).replace("'", "'\\''")


def zsh(commands, options):
    lines = ["#compdef anyflash", "# written by tools/completions.py", "_anyflash() {",
             "  local command=doctor each", "  local -a commands options", "  commands=("]
    lines += [f"    '{name}:{zsh_text(line)}'" for name, line in commands.items()]
    lines += ["  )", "  for each in ${words[2,CURRENT-1]}; do",
              f"    case $each in {'|'.join(commands)}) command=$each; break ;; esac", "  done",
              "  case $command in"]
    for command in commands:
        lines.append(f"  {command}) options=(")
        for name, letter, argument, on, text in options:
            if command not in on:
                continue
            values = values_of(name)
            action = f"({' '.join(values)})" if values else ""
            action = action or ("_files" if argument in PATHS else "")
            value = f":{argument}:{action}" if argument else ""
            lines.append(f"    '--{name}{'=' if argument else ''}[{zsh_text(text)}]{value}'")
        kinds = words_of(command)
        lines.append(f"    '*:word:({' '.join(kinds)})' ) ;;" if kinds
                     else "    '*:file:_files' ) ;;")
    return lines + ["  esac", "  if (( CURRENT == 2 )) && [[ $words[2] != -* ]]; then",
                    "    _describe command commands", "    _files",
                    "  elif [[ $command == help ]]; then", "    _describe command commands",
                    "  else", "    _arguments $options", "  fi", "}", '_anyflash "$@"']


def fish_text(text):
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("`", "")


def fish(commands, options):
    names = " ".join(commands)
    lines = ["# fish completion for anyflash; written by tools/completions.py"]
    for name, line in commands.items():
        lines.append(f"complete -c anyflash -n '__fish_use_subcommand; or "
                     f"__fish_seen_subcommand_from help' -a {name} -d '{fish_text(line)}'")
        if words_of(name):
            lines.append(f"complete -c anyflash -f -n '__fish_seen_subcommand_from {name}' "
                         f"-a '{' '.join(words_of(name))}'")
    for name, letter, argument, on, text in options:
        where = f"__fish_seen_subcommand_from {' '.join(sorted(on))}"
        if "doctor" in on:
            where += f"; or not __fish_seen_subcommand_from {names}"
        line = f"complete -c anyflash -n '{where}' -l {name} -d '{fish_text(text)}'"
        line += f" -s {letter}" if letter else ""
        values = values_of(name)
        if values:
            line += f" -x -a '{' '.join(values)}'"
        elif argument:
            line += " -r" if argument in PATHS else " -x"
        lines.append(line)
    return lines


def main():
    commands, options = tables()
    stale = []
    for name, make in (("anyflash.bash", bash), ("_anyflash", zsh), ("anyflash.fish", fish)):
        text = "\n".join(make(commands, options)) + "\n"
        path = FOLDER / name
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            stale.append(name)
    if stale:
        sys.exit(f"not up to date: {', '.join(stale)}; run tools/completions.py")


if __name__ == "__main__":
    main()
