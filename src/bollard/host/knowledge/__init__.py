"""Knowledge bases that runs may ask."""
