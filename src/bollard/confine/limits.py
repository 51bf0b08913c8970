"""Limits of confined files and programs, each with its unit."""

from typing import Final

__all__ = [
    "CPU_S",
    "DEPTH",
    "ENTRIES",
    "FILE_BYTES",
    "FOLDER_BYTES",
    "FOLDER_FILES",
    "GREP_FILE_BYTES",
    "GREP_LINE_CHARACTERS",
    "JAIL_FILE_BYTES",
    "KILL_S",
    "MEMORY_BYTES",
    "NAME_BYTES",
    "OPEN_FILES",
    "ORDER_BYTES",
    "PATH_BYTES",
    "PATTERN_CHARACTERS",
    "PRINTED_BYTES",
    "PROBE_S",
    "PROCESSES",
    "STATUS_BYTES",
    "WATCH_S",
]

_MIB: Final = 1024 * 1024

PATH_BYTES: Final = 1024
"""A path beneath a folder."""
NAME_BYTES: Final = 255
"""One name of a path: what file systems take."""
DEPTH: Final = 64
"""Folders in folders."""
FILE_BYTES: Final = 8 * _MIB
"""A file that is read or written as a whole."""
ENTRIES: Final = 20_000
"""Entries that one walk through a folder looks at."""
FOLDER_BYTES: Final = 256 * _MIB
"""Everything in a folder together."""
FOLDER_FILES: Final = 20_000
"""Files and folders in a folder together."""
GREP_FILE_BYTES: Final = 2 * _MIB
"""A larger file is not searched, and counted as left out."""
GREP_LINE_CHARACTERS: Final = 400
"""What is shown of a line that was found."""
PATTERN_CHARACTERS: Final = 512
"""A pattern to search for."""

MEMORY_BYTES: Final = 2048 * _MIB
"""Address space of each process of a program."""
JAIL_FILE_BYTES: Final = 128 * _MIB
"""One file that a program writes."""
OPEN_FILES: Final = 256
"""Files that each process of a program has open."""
PROCESSES: Final = 128
"""Processes and threads of a program together."""
CPU_S: Final = 600
"""Processor time of each process of a program, in seconds."""
ORDER_BYTES: Final = 1 * _MIB
"""What the jail is told: program, arguments, environment, places."""
STATUS_BYTES: Final = 4096
"""What the jail tells at the end."""
PRINTED_BYTES: Final = 16 * _MIB
"""What a program may print in all; then it is stopped. Reading it costs the host time."""
WATCH_S: Final = 0.5
"""Time between two looks at what a running program has put into its folder."""
KILL_S: Final = 10.0
"""Time to wait for the end of a program whose processes were all killed."""
PROBE_S: Final = 20.0
"""Time that one probe of the machine may take."""
