"""The in-desktop server: OSWorld's wire protocol, and a little more, over one `Computer`.

`running` serves in the event loop that is there. Who may come in is in `admission`, what is
done at most once in `once`; the routes are in `screen`, `commands`, `files`, `windows` and, for
our own client, `native`.
"""

from practicum.desktops.server.app import Address, running
from practicum.desktops.server.desk import Terms

__all__ = ["Address", "Terms", "running"]
