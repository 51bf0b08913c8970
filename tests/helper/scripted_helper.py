"""A helper that obeys its messages: `NUMBER VERB [WORDS]`, answered by `NUMBER WORDS`."""

import os
import signal
import subprocess
import time

from bollard.helper.host_link import HostGone, HostLink, host_socket, live_with_host


def serve(link: HostLink[str]) -> None:
    while True:
        for message in link.hear():
            number, verb, words = message.split(" ", 2)
            match verb:
                case "echo":
                    link.say(f"{number} {words}".encode())
                case "start":
                    grandchild = subprocess.Popen(["/bin/sleep", "3600"])
                    link.say(f"{number} {grandchild.pid}".encode())
                case "sleep":
                    time.sleep(3600)
                case "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "leave":
                    return
                case _:
                    pass  # held: never answered


if __name__ == "__main__":
    live_with_host()
    with host_socket() as connection:
        try:
            serve(HostLink(connection, bytes.decode))
        except HostGone:
            raise SystemExit(1) from None
