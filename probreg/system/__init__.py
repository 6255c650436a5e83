"""The operating system: files on disk, text and progress bars in a terminal, processes."""
