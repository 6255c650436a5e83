"""What people look at: pictures, reports, the command line."""
