"""The HTTP surface: runs, events, agents and bindings. Plain Starlette routes, cheap on the hot paths."""
