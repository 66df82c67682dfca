"""The one way to a node: its outbound WebSocket, multiplexed, and the sockets by which processes share theirs."""
