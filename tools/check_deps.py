#!/usr/bin/env python3
"""Checks every #include "module/..." in src/ against the arrows of ARCHITECTURE.md.

The table there is the rule: a row `module | may include` under the heading
"Arrows". Prints each violation and exits 1, or says what was checked.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z_]+)/')


def read_arrows():
    """module -> set of modules it may include, from ARCHITECTURE.md."""
    arrows = {}
    page = (ROOT / "ARCHITECTURE.md").read_text()
    section = page.split("## Arrows", 1)[1].split("\n## ")[0]
    for line in section.splitlines():
        cells = [cell.strip().strip("`") for cell in line.strip().strip("|").split("|")]
        if len(cells) == 2 and re.fullmatch(r"[a-z_]+", cells[0]) and cells[0] != "module":
            arrows[cells[0]] = set(re.findall(r"[a-z_]+", cells[1])) | {cells[0], "anyflash"}
    return arrows


def main():
    arrows = read_arrows()
    problems = []
    files = sorted((ROOT / "src").glob("*/*.[ch]")) + sorted((ROOT / "src").glob("*/*.inc"))
    for path in files:
        module, shown = path.parent.name, path.relative_to(ROOT)
        if module not in arrows:
            problems.append(f"{shown}: module '{module}' has no row")
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = INCLUDE.match(line)
            if match and match.group(1) not in arrows[module]:
                target = match.group(1)
                problems.append(f"{shown}:{number}: '{module}' may not include '{target}'")
    print("\n".join(problems) if problems else f"{len(files)} files follow the arrows")
    return 1 if problems or not files else 0


if __name__ == "__main__":
    sys.exit(main())
