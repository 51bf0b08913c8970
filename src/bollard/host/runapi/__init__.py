"""What a runner may ask the host for, and the one gate that every call passes."""
