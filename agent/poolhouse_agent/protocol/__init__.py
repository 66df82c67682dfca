"""The wire protocol as the agent speaks it (docs/agent-protocol.md): control messages and tunnel frames."""
