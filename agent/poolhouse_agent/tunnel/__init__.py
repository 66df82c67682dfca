"""The tunnel: one outbound WebSocket that carries the gateway's requests to local engines."""
