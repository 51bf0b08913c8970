"""The HTTP surface: create, read, stream and cancel runs; post events. Plain Starlette routes on the hot paths."""
