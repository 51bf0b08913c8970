"""Limits of confined files and programs, each with its unit."""

from typing import Final

_MIB: Final = 1024 * 1024

PATH_BYTES: Final = 1024
"""A path beneath a folder."""
NAME_BYTES: Final = 255
"""One name of a path, as file systems allow."""
DEPTH: Final = 64
"""Nesting of folders."""
FILE_BYTES: Final = 8 * _MIB
"""A file that is read or written as a whole."""
ENTRIES: Final = 20_000
"""Entries that one walk visits."""
FOLDER_BYTES: Final = 256 * _MIB
"""Total size of a folder."""
FOLDER_FILES: Final = 20_000
"""Files and folders beneath a folder."""
GREP_FILE_BYTES: Final = 2 * _MIB
"""Size above which a file is not searched but counted as skipped."""
GREP_LINE_CHARACTERS: Final = 400
"""The shown part of a matching line."""
PATTERN_CHARACTERS: Final = 512
"""Length of a search pattern."""

MEMORY_BYTES: Final = 2048 * _MIB
"""Address space of each process of a program."""
JAIL_FILE_BYTES: Final = 128 * _MIB
"""One file that a program writes."""
OPEN_FILES: Final = 256
"""Open files of each process of a program."""
PROCESSES: Final = 128
"""Processes and threads of a program together."""
CPU_S: Final = 600
"""Processor time of each process of a program, in seconds."""
ORDER_BYTES: Final = 1 * _MIB
"""The order of a jail: program, arguments, environment, paths."""
STATUS_BYTES: Final = 4096
"""The status report of a jail."""
PRINTED_BYTES: Final = 16 * _MIB
"""Total output after which a program is stopped, because reading it costs the host time."""
WATCH_S: Final = 0.5
"""Time between two checks of the folder of a running program."""
KILL_S: Final = 10.0
"""Time to wait for the end of a killed program."""
PROBE_S: Final = 20.0
"""Time that one probe of the machine may take."""
LAUNCH_MEMORY_BYTES: Final = 4 * 1024 * _MIB
"""Data of each process of a launched program; its control group limits all of them together."""
LAUNCH_FILES: Final = 4096
"""Open files of each process of a launched program."""
LAUNCH_HOME_BYTES: Final = 256 * _MIB
"""Home and temporary files of a launched program."""
LAUNCH_HOME_FILES: Final = 20_000
"""Files and folders in the home and the temporary folder of a launched program."""
LAUNCH_PROCESSES: Final = 256
"""Processes and threads of a launched program together."""
LAUNCH_SHARED_BYTES: Final = 64 * _MIB
"""Shared memory (`/dev/shm`) of a launched program."""
LAUNCH_BACKLOG: Final = 128
"""Connections that wait for the proxy."""
LAUNCH_GROUP_BYTES: Final = 1024 * _MIB
"""Memory of a launched program and everything that it starts, if nothing else was agreed to."""
LAUNCH_PROCESSORS: Final = 1.0
"""Processors of a launched program, if nothing else was agreed to."""
SHARED_BYTES: Final = 4 * 1024 * _MIB
"""Memory of all launched programs of one workspace together."""
SHARED_PROCESSORS: Final = 4.0
"""Processors of all launched programs of one workspace together."""
SHARED_PROCESSES: Final = 2048
"""Processes and threads of all launched programs of one workspace together."""
LAUNCH_LISTENER_S: Final = 20.0
"""Time until a launched program has its network."""
LAUNCH_REMOVALS: Final = 100
"""Attempts to remove the control group of an ended program."""
LAUNCH_REMOVAL_S: Final = 0.02
"""Time between two of them."""
