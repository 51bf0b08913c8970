"""The one log: records, the journal that writes them, and the projections that follow from them."""
