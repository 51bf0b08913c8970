"""The catalogue of the hostile suite: what each probe tries, and which levels promise to stop it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

LEVELS: Final = ("full", "namespaces", "landlock")
_ALL: Final = frozenset(LEVELS)
_VIEW: Final = frozenset(("full", "namespaces"))
_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: attempts of one kind, with one promise."""

    text: str
    stopped_at: frozenset[str]
    probes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Area:
    name: str
    rows: tuple[Row, ...]


AREAS: Final = (
    Area(
        "Files",
        (
            Row("read the database of the host and its keys", _ALL, ("read_key", "read_database", "list_data")),
            Row("read files of another plugin, or workspaces of runs", _ALL, ("read_other_plugin", "read_workspace")),
            Row(
                "read the home, the temporary files and the shared memory of the host's user",
                _ALL,
                ("read_home", "read_temporary", "read_shared_memory", "read_passwords"),
            ),
            Row(
                "reach them through links, `..`, `/proc`, file handles or inherited descriptors",
                _ALL,
                (
                    "follow_link",
                    "climb_out",
                    "root_of_process",
                    "hard_link",
                    "file_handle",
                    "inherited_descriptor",
                    "descriptor_folder",
                ),
            ),
            Row(
                "create, change, move or remove files of the host",
                _ALL,
                ("create_file", "truncate_file", "move_file", "remove_file"),
            ),
            Row(
                "change modes, owners, times, attributes or flags of files",
                _ALL,
                (
                    "change_mode",
                    "change_mode_by_new_call",
                    "change_owner",
                    "change_times",
                    "change_attributes",
                    "change_flags",
                    "mode_of_own_plugin",
                ),
            ),
            Row(
                "change its own code, the host's code or the system",
                _ALL,
                ("write_own_plugin", "write_host_code", "write_system"),
            ),
            Row("watch folders for changes", _ALL, ("watch_folder", "watch_machine")),
            Row("see that a file outside exists, and its size", _VIEW, ("stat_file",)),
            Row("fill the disk through its home", _VIEW, ("free_space_of_disk",)),
        ),
    ),
    Area(
        "Processes",
        (
            Row(
                "read memory, environment or files of other processes",
                _ALL,
                (
                    "environment_of_process",
                    "memory_of_process",
                    "files_of_process",
                    "root_of_sibling",
                    "read_process",
                    "compare_processes",
                ),
            ),
            Row(
                "trace or change other processes, or take their descriptors",
                _ALL,
                ("trace_process", "write_process", "steal_descriptor", "advise_process", "parent_memory"),
            ),
            Row(
                "signal the host or another plugin",
                _ALL,
                (
                    "signal_host",
                    "signal_group",
                    "signal_thread",
                    "signal_sibling",
                    "signal_by_handle",
                    "signal_by_channel",
                    "signal_by_input",
                ),
            ),
            Row(
                "change limits, priorities or processors of other processes, or its own priority",
                _ALL,
                ("limit_process", "slow_process", "bind_process", "offer_process", "realtime", "more_priority"),
            ),
            Row("list the processes of the machine", _ALL, ("list_processes",)),
            Row("learn by its number whether a process exists", _VIEW, ("process_exists",)),
            Row("read secrets in the host's environment", _ALL, ("secrets_in_environment",)),
        ),
    ),
    Area(
        "Network and sockets",
        (
            Row(
                "reach a service of this machine by TCP",
                _ALL,
                (
                    "tcp_service",
                    "tcp_service_6",
                    "tcp_mapped",
                    "tcp_fast_open",
                    "tcp_fast_open_message",
                    "tcp_several_paths",
                    "sctp",
                ),
            ),
            Row(
                "reach other addresses, name servers or the metadata of a cloud",
                _ALL,
                ("names", "metadata", "udp_service", "udp_service_6", "ping"),
            ),
            Row("offer a service to others", _ALL, ("tcp_listen", "tcp_listen_unbound")),
            Row("reach Unix sockets of others", _ALL, ("path_socket", "abstract_socket", "datagram_pair")),
            Row("send raw packets, or read those of others", _ALL, ("raw_packets", "packets_of_machine", "xdp")),
            Row("open sockets of the kernel", _ALL, ("netlink", "crypto", "vsock", "smc", "tipc")),
            Row("with a network: reach the port of its proxy at another address", _VIEW, ("tcp_port_of_proxy",)),
            Row("with a network: see the network interfaces of the machine", _VIEW, ("addresses_of_machine",)),
        ),
    ),
    Area(
        "The kernel",
        (
            Row(
                "use interfaces with a history of vulnerabilities",
                _ALL,
                ("io_uring", "user_faults", "bpf", "performance_events"),
            ),
            Row(
                "call the kernel around the filter",
                _ALL,
                ("calls_of_32_bits", "calls_of_other_numbers", "namespaces_by_new_clone"),
            ),
            Row("use keys of the user", _ALL, ("add_key", "read_keys", "list_keys")),
            Row(
                "share memory or messages with others",
                _ALL,
                ("shared_segment", "new_segment", "semaphores", "messages", "message_queue", "secret_memory"),
            ),
            Row(
                "open devices",
                _ALL,
                (
                    "make_device",
                    "device_disk",
                    "device_memory",
                    "device_messages",
                    "device_fuse",
                    "device_tunnel",
                    "device_machine",
                    "device_terminals",
                ),
            ),
            Row("type into a terminal", _ALL, ("type_into_terminal",)),
            Row(
                "mount, or change its root",
                _ALL,
                (
                    "mount",
                    "mount_again",
                    "mount_writable",
                    "unmount",
                    "mount_by_new_calls",
                    "tree_of_mounts",
                    "other_root",
                    "swap_root",
                ),
            ),
            Row("create or enter namespaces", _ALL, ("user_namespace", "namespaces_by_clone", "namespaces_of_host")),
            Row(
                "gain rights: programs that change the user, capabilities",
                _ALL,
                ("privileged_programs", "capabilities", "other_user"),
            ),
            Row(
                "leave its control group, or raise a limit",
                _ALL,
                ("group_of_host", "raise_group_limits", "release_agent", "raise_limits"),
            ),
            Row("leave a memory dump", _ALL, ("dump_memory",)),
            Row(
                "set the clock, the host name or kernel settings",
                _ALL,
                (
                    "set_clock",
                    "adjust_clock",
                    "host_name",
                    "domain_name",
                    "write_kernel_settings",
                    "write_kernel_keys",
                    "read_system_settings",
                ),
            ),
            Row(
                "restart the machine, change swap, modules, accounting or ports",
                _ALL,
                (
                    "restart_machine",
                    "swap",
                    "no_swap",
                    "load_module",
                    "load_module_file",
                    "remove_module",
                    "other_kernel",
                    "accounting",
                    "ports_of_machine",
                ),
            ),
            Row("read the kernel's messages", _ALL, ("messages_of_kernel",)),
            Row("see the load and the memory of the machine", _NONE, ("load_of_machine",)),
        ),
    ),
)

ROWS: Final = tuple(row for area in AREAS for row in area.rows)
PROMISES: Final[Mapping[str, frozenset[str]]] = {probe: row.stopped_at for row in ROWS for probe in row.probes}

NEVER_UNCONFINED: Final = frozenset(("names", "metadata"))
"""Probes that would send packets to other machines."""
ONLY_CONFINED: Final = frozenset(("mount_writable", "parent_memory", "tcp_port_of_proxy"))
"""Probes of things that only a confined program has."""
MAY_BE_ABSENT: Final = frozenset(
    (
        "accounting",
        "addresses_of_machine",
        "bpf",
        "calls_of_32_bits",
        "calls_of_other_numbers",
        "change_attributes",
        "change_flags",
        "change_mode_by_new_call",
        "crypto",
        "device_disk",
        "device_fuse",
        "device_machine",
        "device_memory",
        "device_tunnel",
        "io_uring",
        "load_module",
        "load_module_file",
        "other_kernel",
        "packets_of_machine",
        "performance_events",
        "ping",
        "ports_of_machine",
        "release_agent",
        "remove_module",
        "sctp",
        "secret_memory",
        "signal_by_channel",
        "smc",
        "swap",
        "tcp_service_6",
        "tcp_several_paths",
        "tipc",
        "type_into_terminal",
        "udp_service_6",
        "vsock",
        "write_kernel_keys",
        "xdp",
    )
)
"""Probes of things that a kernel or a machine may not have. Without confinement each of them succeeds for the
superuser, as all others do, or fails with an error of `ABSENT`."""
ABSENT: Final = frozenset(
    (
        "EADDRNOTAVAIL",
        "EAFNOSUPPORT",
        "EIO",
        "ENODEV",
        "ENOENT",
        "ENOPROTOOPT",
        "ENOSYS",
        "ENOTTY",
        "ENXIO",
        "EOPNOTSUPP",
        "EPROTONOSUPPORT",
        "ESOCKTNOSUPPORT",
    )
)
"""Errors of a kernel or a machine that lacks something."""
SWITCHED_OFF: Final[Mapping[str, str]] = {"device_disk": "EPERM", "io_uring": "EPERM", "ping": "EACCES"}
"""Probes of things that a setting of the machine may turn off, with its error."""
WALLS: Final = frozenset(("EACCES", "ENETUNREACH", "EPERM"))
"""Errors of a wall before a network, which a lost packet does not give."""
