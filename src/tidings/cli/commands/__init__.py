"""The commands' arguments and help; what they do is in the files above that are named like them."""
