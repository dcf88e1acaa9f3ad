"""One authenticated front for many desktops on many hosts, and its client."""
