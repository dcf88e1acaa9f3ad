"""A `Computer` behind a URL: our own server, OSWorld's, or Windows Agent Arena's.

`connect` finds out which of them answers. Faults are `MachineError`s with the kinds of `calls`.
"""

from practicum.desktops.remote.calls import CallError, Calls
from practicum.desktops.remote.computer import RemoteComputer
from practicum.desktops.remote.connect import ServerKind, connect
from practicum.desktops.remote.osworld import OsworldComputer
from practicum.desktops.remote.waa import WaaComputer

__all__ = [
    "CallError",
    "Calls",
    "OsworldComputer",
    "RemoteComputer",
    "ServerKind",
    "WaaComputer",
    "connect",
]
