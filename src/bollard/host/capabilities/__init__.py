"""What a run can do: capabilities as frozen values, where they come from, and the graph that a run sees of them."""
