"""The machine: files on its disk, text in its terminal."""
