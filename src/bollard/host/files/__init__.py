"""Files of workspaces: uploaded by people, given to runs whose agents name them."""
