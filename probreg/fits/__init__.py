"""A fitted model: the verb, its predictions, its draws as inference data, its file."""
