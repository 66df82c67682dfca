"""Programs that run in the engine's own Python, where PyTorch is; the agent's Python never imports them.

`python -I …/on_torch/__main__.py PROGRAM --device cuda:0 --options JSON` writes one JSON object a line to stdout:
`{"progress": 0.5}` on the way, then `{"result": {…}}`, or `{"unsupported": "why"}`, or `{"wrong": "code", …}`.
"""
