"""Drawing digits on the command line."""
