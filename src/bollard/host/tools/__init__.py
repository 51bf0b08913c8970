"""The built-in tools: their definitions and their adapters. Policy is applied elsewhere."""
