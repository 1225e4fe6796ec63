"""What other libraries call the methods, arguments and functions of this package."""
