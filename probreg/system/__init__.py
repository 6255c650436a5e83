"""The machine: files on its disk, text and bars in its terminal, its processes."""
