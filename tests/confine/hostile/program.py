"""`python -m tests.confine.hostile.program PROBE...`: all probes in one hostile program."""

from tests.confine.hostile import attack_files, attack_kernel, attack_network, attack_processes
from tests.confine.hostile.attack import main

__all__ = ["attack_files", "attack_kernel", "attack_network", "attack_processes"]

if __name__ == "__main__":
    main()
