"""The OpenAPI document, made from the list of operations."""
