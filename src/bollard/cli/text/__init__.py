"""Every sentence that the command line says, one module for each language. Keys and fields are the same in all."""
