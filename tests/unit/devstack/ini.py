# SPDX-License-Identifier: Apache-2.0
"""Options in files as DevStack's functions set them.

`ini.py get FILE SECTION OPTION`, `ini.py set FILE SECTION OPTION VALUE...`. Standard library only:
it is started for every option.
"""

import sys
from pathlib import Path


def sections_of(path: Path) -> dict[str, list[tuple[str, str]]]:
    """Options of each section in the order of the file; an option may be there several times."""
    found: dict[str, list[tuple[str, str]]] = {}
    section = ""
    for line in path.read_text().splitlines() if path.exists() else ():
        text = line.strip()
        if text.startswith("["):
            section = text[1:-1]
            found.setdefault(section, [])
        elif text and not text.startswith("#"):
            name, _, value = text.partition("=")
            found.setdefault(section, []).append((name.strip(), value.strip()))
    return found


def main(command: str, file: str, section: str, option: str, *values: str) -> None:
    path = Path(file)
    sections = sections_of(path)
    options = sections.setdefault(section, [])
    if command == "get":
        print(next((value for name, value in options if name == option), ""))
        return
    kept = [(name, value) for name, value in options if name != option]
    sections[section] = [*kept, *((option, value) for value in values)]
    path.write_text(
        "".join(
            f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in listed) + "\n"
            for name, listed in sections.items()
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
